import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Apache's client with credentials: NAMESERVER ACCESS_KEY SECRET_KEY TOPIC GROUP sends a message, a batch and a transaction, consumes
 * them, and prints "consumed N". When a send is refused it prints "refused SENTENCE".
 */
public class AclClient {
    public static void main(String[] arguments) throws Exception {
        String nameserver = arguments[0], topic = arguments[3], group = arguments[4];
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(arguments[1], arguments[2]));
        TransactionMQProducer producer = new TransactionMQProducer(group + "-p", hook);
        producer.setNamesrvAddr(nameserver);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        try {
            producer.send(new Message(topic, "a", "k0", "m0".getBytes()));
            List<Message> batch = new ArrayList<>();
            for (int number = 1; number <= 3; number++) {
                batch.add(new Message(topic, "a", "k" + number, ("m" + number).getBytes()));
            }
            producer.send(batch);
            producer.sendMessageInTransaction(new Message(topic, "a", "k4", "m4".getBytes()), null);
        } catch (Exception refused) {
            System.out.println("refused " + refused.getMessage().replace('\n', ' '));
            producer.shutdown();
            System.exit(0);
        }
        Set<String> consumed = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> consumed.add(new String(message.getBody())));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int tries = 0; tries < 600 && consumed.size() < 5; tries++) {
            TimeUnit.MILLISECONDS.sleep(100);
        }
        System.out.println("consumed " + consumed.size());
        consumer.shutdown();
        producer.shutdown();
        System.exit(0);
    }
}
