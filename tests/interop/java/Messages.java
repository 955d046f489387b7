import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.TreeSet;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.Compressor;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.message.MessageVersion;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.store.MessageExtEncoder;
import org.apache.rocketmq.store.PutMessageContext;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Answers questions about messages with Apache's own code: a line in is a verb and its arguments, a line out is the answer.
 * Bytes and text travel as hexadecimal, so that a line is plain ASCII; "-" is nothing.
 */
public class Messages {
    interface Verb {
        String answer(String[] given) throws Exception;
    }

    static final Map<String, Verb> VERBS = new HashMap<>();

    static {
        VERBS.put("decode", given -> decode(unhex(given[1])));
        VERBS.put("encode", given -> hex(MessageDecoder.encode(message(new MessageExt(), given), given[15].equals("true"))));
        VERBS.put("batch-decode", given -> batchDecode(unhex(given[1])));
        VERBS.put("batch-encode", Messages::batchEncode);
        VERBS.put("batch-store", Messages::batchStore);
        VERBS.put("properties-read", given -> shown(MessageDecoder.string2messageProperties(text(given[1]))));
        VERBS.put("properties-write", given -> hex(MessageDecoder.messageProperties2String(properties(given[1]))));
        VERBS.put("compress", given -> hex(compressor(given[1]).compress(unhex(given[3]), Integer.parseInt(given[2]))));
        VERBS.put("decompress", given -> digest(compressor(given[1]).decompress(unhex(given[2]))));
        VERBS.put("unique-id-read", Messages::uniqueIdRead);
        VERBS.put("unique-id", given -> MessageClientIDSetter.createUniqID());
        VERBS.put("offset-id", given -> MessageDecoder.createMessageId(host(given[1]), Long.parseLong(given[2])));
        VERBS.put("offset-id-read", Messages::offsetIdRead);
        VERBS.put("hash", given -> String.valueOf(fromUnits(given[1]).hashCode()));
        VERBS.put("subscription", Messages::subscription);
        VERBS.put("crc", given -> String.valueOf(UtilAll.crc32(unhex(given[1]))));
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream answers = new PrintStream(System.out, false, "US-ASCII");
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] given = line.split(" ");
            answers.println(VERBS.get(given[0]).answer(given));
        }
        answers.flush();
        System.exit(0); // Apache's logging leaves threads behind
    }

    static String decode(byte[] record) throws Exception {
        // body read, body unpacked, not for a client, properties as a map, CRC checked
        MessageExt message = MessageDecoder.decode(ByteBuffer.wrap(record), true, true, false, false, true);
        if (message == null) {
            return "refused";
        }
        Object[] fields = {
            message.getStoreSize(), message.getBodyCRC(), message.getQueueId(), message.getFlag(), message.getQueueOffset(),
            message.getCommitLogOffset(), message.getSysFlag(), message.getBornTimestamp(), hostHex(message.getBornHost()),
            message.getStoreTimestamp(), hostHex(message.getStoreHost()), message.getReconsumeTimes(),
            message.getPreparedTransactionOffset(), digest(message.getBody()), hex(message.getTopic()),
            shown(message.getProperties()), message.getMsgId(),
        };
        StringBuilder line = new StringBuilder();
        for (Object field : fields) {
            line.append(line.length() == 0 ? "" : " ").append(field);
        }
        return line.toString();
    }

    /** topic, queue id, flag, queue offset, physical offset, sys flag, born and store time and host, retries, …, body, properties. */
    static <M extends MessageExt> M message(M message, String[] given) throws Exception {
        message.setTopic(text(given[1]));
        message.setQueueId(Integer.parseInt(given[2]));
        message.setFlag(Integer.parseInt(given[3]));
        message.setQueueOffset(Long.parseLong(given[4]));
        message.setCommitLogOffset(Long.parseLong(given[5]));
        message.setSysFlag(Integer.parseInt(given[6]));
        message.setBornTimestamp(Long.parseLong(given[7]));
        message.setBornHost(host(given[8]));
        message.setStoreTimestamp(Long.parseLong(given[9]));
        message.setStoreHost(host(given[10]));
        message.setReconsumeTimes(Integer.parseInt(given[11]));
        message.setPreparedTransactionOffset(Long.parseLong(given[12]));
        message.setBody(unhex(given[13]));
        message.setBodyCRC(UtilAll.crc32(message.getBody()));
        MessageAccessor.setProperties(message, properties(given[14]));
        return message;
    }

    static String batchDecode(byte[] batch) throws Exception {
        List<String> lines = new ArrayList<>();
        for (Message message : MessageDecoder.decodeMessages(ByteBuffer.wrap(batch))) {
            lines.add(message.getFlag() + "/" + digest(message.getBody()) + "/" + shown(message.getProperties()));
        }
        return String.join(" ", lines);
    }

    static String batchEncode(String[] given) {
        List<Message> messages = new ArrayList<>();
        for (String one : Arrays.copyOfRange(given, 1, given.length)) {
            String[] parts = one.split("/");
            Message message = new Message();
            message.setFlag(Integer.parseInt(parts[0]));
            message.setBody(unhex(parts[1]));
            MessageAccessor.setProperties(message, properties(parts[2]));
            messages.add(message);
        }
        return hex(MessageDecoder.encodeMessages(messages));
    }

    /** The records as the broker's store encodes them; it fills in both offsets later. */
    static String batchStore(String[] given) throws Exception {
        MessageExtBatch batch = message(new MessageExtBatch(), given);
        batch.setVersion(given[15].equals("2") ? MessageVersion.MESSAGE_VERSION_V2 : MessageVersion.MESSAGE_VERSION_V1);
        if (hostHex(batch.getBornHost()).length() == 40) {
            batch.setBornHostV6Flag();
        }
        if (hostHex(batch.getStoreHost()).length() == 40) {
            batch.setStoreHostAddressV6Flag();
        }
        MessageExtEncoder encoder = new MessageExtEncoder(4 * 1024 * 1024, new MessageStoreConfig());
        ByteBuffer records = encoder.encode(batch, new PutMessageContext("topic-queue"));
        byte[] copied = new byte[records.remaining()];
        records.get(copied);
        return hex(copied);
    }

    static String uniqueIdRead(String[] given) {
        long now = System.currentTimeMillis();
        return hex(MessageClientIDSetter.getIPFromID(given[1])) + " " + MessageClientIDSetter.getPidFromID(given[1]) + " "
            + MessageClientIDSetter.getNearlyTimeFromID(given[1]).getTime() + " " + now + " " + TimeZone.getDefault().getOffset(now);
    }

    static String offsetIdRead(String[] given) throws Exception {
        MessageId id = MessageDecoder.decodeMessageId(given[1]);
        return hostHex(id.getAddress()) + " " + id.getOffset();
    }

    static String subscription(String[] given) {
        try {
            SubscriptionData data = FilterAPI.buildSubscriptionData("topic", fromUnits(given[1]));
            return data.getSubString().equals(SubscriptionData.SUB_ALL) ? "all" : new TreeSet<>(data.getCodeSet()).toString();
        } catch (Exception error) {
            return "error";
        }
    }

    static Compressor compressor(String sysFlag) {
        CompressionType type = MessageSysFlag.getCompressionType(Integer.parseInt(sysFlag));
        return CompressorFactory.getCompressor(type);
    }

    static Map<String, String> properties(String given) {
        Map<String, String> properties = new LinkedHashMap<>();
        if (!given.equals("-")) {
            for (String pair : given.split(",")) {
                String[] parts = pair.split(":");
                properties.put(text(parts[0]), text(parts[1]));
            }
        }
        return properties;
    }

    static String shown(Map<String, String> properties) {
        if (properties == null) { // a record without any
            return "-";
        }
        List<String> pairs = new ArrayList<>();
        for (Map.Entry<String, String> pair : properties.entrySet()) {
            pairs.add(hex(pair.getKey()) + ":" + hex(pair.getValue()));
        }
        pairs.sort(null);
        return pairs.isEmpty() ? "-" : String.join(",", pairs);
    }

    static SocketAddress host(String given) throws Exception {
        byte[] packed = unhex(given);
        byte[] address = Arrays.copyOf(packed, packed.length - 4);
        return new InetSocketAddress(InetAddress.getByAddress(address), ByteBuffer.wrap(packed, packed.length - 4, 4).getInt());
    }

    static String hostHex(SocketAddress host) {
        InetSocketAddress address = (InetSocketAddress) host;
        byte[] packed = address.getAddress().getAddress();
        return hex(ByteBuffer.allocate(packed.length + 4).put(packed).putInt(address.getPort()).array());
    }

    static String digest(byte[] bytes) throws Exception {
        return bytes == null ? digest(new byte[0]) : hex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    static String text(String hex) {
        return new String(unhex(hex), StandardCharsets.UTF_8);
    }

    /** Text as its UTF-16 units, so that also half a pair can be asked about. */
    static String fromUnits(String hex) {
        return ByteBuffer.wrap(unhex(hex)).asCharBuffer().toString();
    }

    static String hex(String text) {
        return hex(text.getBytes(StandardCharsets.UTF_8));
    }

    static String hex(byte[] bytes) {
        if (bytes.length == 0) {
            return "-";
        }
        StringBuilder hex = new StringBuilder(2 * bytes.length);
        for (byte one : bytes) {
            hex.append(Character.forDigit((one >> 4) & 15, 16)).append(Character.forDigit(one & 15, 16));
        }
        return hex.toString();
    }

    static byte[] unhex(String hex) {
        if (hex.equals("-")) {
            return new byte[0];
        }
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (Character.digit(hex.charAt(2 * i), 16) << 4 | Character.digit(hex.charAt(2 * i + 1), 16));
        }
        return bytes;
    }
}
