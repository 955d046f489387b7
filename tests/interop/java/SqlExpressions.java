import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/**
 * What Apache's filter makes of expressions. A line in is an expression and property sets, as hexadecimal ("-" when empty) with
 * blanks between them; the answer is a line: "refused", or for each set a letter: T(rue), F(alse), N(ull), or E when it failed.
 *
 * With arguments EXPRESSION RECORD, also as hexadecimal: the nanoseconds that its filter takes for a record, when warm.
 */
public class SqlExpressions {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
        System.setOut(System.err);
        if (arguments.length == 2) {
            out.println(nanoseconds(arguments[0], bytes(arguments[1])));
            out.flush();
            System.exit(0);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split(" ")));
        }
        out.flush();
        System.exit(0);
    }

    static double nanoseconds(String sql, byte[] record) throws Exception {
        Expression expression = FilterFactory.INSTANCE.get(ExpressionType.SQL92).compile(text(sql));
        int times = 200_000;
        double best = Double.MAX_VALUE;
        for (int round = 0; round < 20; round++) {
            long began = System.nanoTime();
            for (int i = 0; i < times; i++) {
                evaluated(expression, MessageDecoder.decodeProperties(ByteBuffer.wrap(record)));
            }
            best = Math.min(best, (System.nanoTime() - began) / (double) times);
        }
        return best;
    }

    static String answer(String[] given) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get(ExpressionType.SQL92).compile(text(given[0]));
        } catch (MQFilterException wrong) {
            return "refused";
        }
        StringBuilder letters = new StringBuilder();
        for (int i = 1; i < given.length; i++) {
            letters.append(evaluated(expression, MessageDecoder.string2messageProperties(text(given[i]))));
        }
        return letters.toString();
    }

    static char evaluated(Expression expression, Map<String, String> properties) {
        try {
            Object value = expression.evaluate(new MessageEvaluationContext(properties));
            return value == null ? 'N' : (Boolean) value ? 'T' : 'F';
        } catch (Exception failure) {
            return 'E';
        }
    }

    static String text(String hex) {
        return hex.equals("-") ? "" : new String(bytes(hex), StandardCharsets.UTF_8);
    }

    static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }
}
