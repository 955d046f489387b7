import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;

/** Runs the main methods of the classes that are named on its input, side by side. Each line that one prints, on threads of its
 *  own too, comes out behind the class's name and a tab; "ended" or the exception when its main is over. */
public class ExampleRunner {
    private static final PrintStream OUT = System.out;
    private static final InheritableThreadLocal<String> PROGRAM = new InheritableThreadLocal<>();

    /** Gathers a thread's bytes to lines. */
    private static class Lines extends OutputStream {
        private final ThreadLocal<ByteArrayOutputStream> line = ThreadLocal.withInitial(ByteArrayOutputStream::new);

        @Override
        public void write(int b) {
            if (b == '\n') {
                tell(new String(line.get().toByteArray(), StandardCharsets.UTF_8));
                line.get().reset();
            } else {
                line.get().write(b);
            }
        }

        @Override
        public void flush() {
            // Some examples print no line end: what they printed is told when their main is over.
        }

        void rest() {
            if (line.get().size() > 0) {
                write('\n');
            }
        }
    }

    private static void tell(String line) {
        synchronized (OUT) {
            OUT.println(PROGRAM.get() + "\t" + line);
            OUT.flush();
        }
    }

    public static void main(String[] args) throws Exception {
        Lines lines = new Lines();
        System.setOut(new PrintStream(lines, true, "UTF-8"));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String name = input.readLine(); name != null; name = input.readLine()) {
            String program = name;
            new Thread(() -> {
                PROGRAM.set(program);
                try {
                    Method method = Class.forName("org.apache.rocketmq.example." + program).getMethod("main", String[].class);
                    method.invoke(null, (Object) new String[0]);
                    lines.rest();
                    tell("ended");
                } catch (Throwable error) {
                    error.printStackTrace();
                    tell("failed " + error + " " + error.getCause());
                }
            }).start();
        }
    }
}
