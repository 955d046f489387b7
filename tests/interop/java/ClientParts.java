import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.NamespaceUtil;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Questions on standard input, one JSON object a line; to each one line of JSON, which Apache's own classes answer. */
public class ClientParts {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject question = JSON.parseObject(line);
            out.println(JSON.toJSONString(answer(question)));
        }
        out.flush();
        Runtime.getRuntime().halt(0);  // a client instance leaves threads behind
    }

    static Object answer(JSONObject question) throws Exception {
        switch (question.getString("ask")) {
            case "allocate":
                return allocate(question);
            case "order":
                return ordered(question);
            case "sign":
                return sign(question);
            case "namespace":
                return namespace(question);
            case "offsets-write":
                return offsets(question, true);
            case "offsets-read":
                return offsets(question, false);
            default:
                throw new IllegalArgumentException(question.getString("ask"));
        }
    }

    static Object allocate(JSONObject question) {
        try {
            AllocateMessageQueueStrategy strategy = strategy(question.getJSONObject("strategy"));
            List<MessageQueue> queues = queues(question.getJSONArray("queues"));
            List<String> ids = question.getJSONArray("ids").toList(String.class);
            List<Object> mine = new ArrayList<>();
            for (MessageQueue queue : strategy.allocate("group", question.getString("me"), queues, ids)) {
                mine.add(plain(queue));
            }
            return Map.of("name", strategy.getName(), "queues", mine);
        } catch (IllegalArgumentException e) {
            return "refused";
        }
    }

    static AllocateMessageQueueStrategy strategy(JSONObject given) {
        switch (given.getString("kind")) {
            case "averagely":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "configured": {
                AllocateMessageQueueByConfig strategy = new AllocateMessageQueueByConfig();
                strategy.setMessageQueueList(queues(given.getJSONArray("queues")));
                return strategy;
            }
            case "room": {
                AllocateMessageQueueByMachineRoom strategy = new AllocateMessageQueueByMachineRoom();
                strategy.setConsumeridcs(new HashSet<>(given.getJSONArray("rooms").toList(String.class)));
                return strategy;
            }
            case "nearby":
                return new AllocateMachineRoomNearby(strategy(given.getJSONObject("within")),
                    new AllocateMachineRoomNearby.MachineRoomResolver() {
                        @Override public String brokerDeployIn(MessageQueue queue) {
                            return room(queue.getBrokerName());
                        }

                        @Override public String consumerDeployIn(String clientId) {
                            return room(clientId);
                        }
                    });
            case "hash": {
                int places = given.getIntValue("places");
                if (places == 0) {
                    return new AllocateMessageQueueConsistentHash(given.getIntValue("points"));
                }
                return new AllocateMessageQueueConsistentHash(given.getIntValue("points"), text -> Math.floorMod(text.hashCode(), places));
            }
            default:
                throw new IllegalStateException(given.getString("kind"));
        }
    }

    /** What is before the first @; nothing when there is none. */
    static String room(String name) {
        int at = name.indexOf('@');
        return at < 0 ? "" : name.substring(0, at);
    }

    static Object ordered(JSONObject question) {
        List<Object> sorted = new ArrayList<>();
        queues(question.getJSONArray("queues")).stream().sorted().forEach(queue -> sorted.add(plain(queue)));
        return sorted;
    }

    static Object sign(JSONObject question) {
        RemotingCommand request = RemotingCommand.createRequestCommand(10, null);
        JSONObject fields = question.getJSONObject("fields");
        for (String name : fields.keySet()) {
            request.addExtField(name, fields.getString(name));
        }
        String body = question.getString("body");
        if (!body.isEmpty()) {
            request.setBody(bytes(body));
        }
        SessionCredentials credentials = new SessionCredentials(question.getString("access"), question.getString("secret"), question.getString("token"));
        new AclClientRPCHook(credentials).doBeforeRequest("", request);
        return new TreeMap<>(request.getExtFields());
    }

    static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    static Object namespace(JSONObject question) {
        String space = question.getString("space");
        String name = question.getString("name");
        return List.of(NamespaceUtil.wrapNamespace(space, name), NamespaceUtil.withoutNamespace(name, space));
    }

    /** The folder is where the system property rocketmq.client.localOffsetStoreDir says. */
    static Object offsets(JSONObject question, boolean write) throws Exception {
        MQClientInstance instance = new MQClientInstance(new ClientConfig(), 0, question.getString("client"));
        LocalFileOffsetStore store = new LocalFileOffsetStore(instance, question.getString("group"));
        store.load();
        List<MessageQueue> queues = queues(question.getJSONArray("queues"));
        List<Long> offsets = new ArrayList<>();
        for (int i = 0; i < queues.size(); i++) {
            if (write) {
                store.updateOffset(queues.get(i), question.getJSONArray("offsets").getLong(i), false);
            }
            offsets.add(store.readOffset(queues.get(i), ReadOffsetType.READ_FROM_MEMORY));
        }
        if (write) {
            store.persistAll(new HashSet<>(queues));
        }
        return offsets;
    }

    static List<MessageQueue> queues(JSONArray given) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < given.size(); i++) {
            JSONArray one = given.getJSONArray(i);
            queues.add(new MessageQueue(one.getString(0), one.getString(1), one.getIntValue(2)));
        }
        return queues;
    }

    static List<Object> plain(MessageQueue queue) {
        return List.of(queue.getTopic(), queue.getBrokerName(), queue.getQueueId());
    }
}
