import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/**
 * Does with a body what Apache RocketMQ does. Each line of standard input is `verb TAB class TAB base64`; each gets one line:
 * `= base64` of what Java made of it, or `! base64` of the error.
 */
public class BodyRoundTrip {
    static final String R = "org.apache.rocketmq.";
    static final String P = R + "remoting.protocol.";
    static final String[] PREFIXES = {
        P, P + "body.", P + "admin.", P + "route.", P + "heartbeat.", P + "header.", P + "statictopic.", P + "subscription.",
        P + "namesrv.", P + "topic.", P + "body.AclInfo$", P + "body.BrokerReplicasInfo$", P + "body.HARuntimeInfo$",
        R + "common.", R + "common.message.", R + "common.lite.", R + "common.entity.", R + "broker.schedule.",
        R + "store.timer.TimerMetrics$", R + "broker.transaction.TransactionMetrics$", R + "namesrv.kvconfig.",
        R + "client.consumer.store.",
    };

    static Class<?> named(String simpleName) throws ClassNotFoundException {
        for (String prefix : PREFIXES) {
            try {
                return Class.forName(prefix + simpleName);
            } catch (ClassNotFoundException | NoClassDefFoundError next) {
                continue;
            }
        }
        throw new ClassNotFoundException(simpleName);
    }

    static byte[] run(String verb, String name, byte[] given) throws Exception {
        switch (verb) {
            case "again":
                return RemotingSerializable.encode(RemotingSerializable.decode(given, named(name)));
            case "pretty":
                return RemotingSerializable.toJson(RemotingSerializable.decode(given, named(name)), true).getBytes(StandardCharsets.UTF_8);
            case "older":  // as peers before 5.4 write it
                return com.alibaba.fastjson.JSON.toJSONString(RemotingSerializable.decode(given, named(name))).getBytes(StandardCharsets.UTF_8);
            case "strict":
                return RemotingSerializable.decode(given, TopicRouteData.class)
                    .encode(JSONWriter.Feature.BrowserCompatible, JSONWriter.Feature.MapSortField);
            case "blank":
                Constructor<?> empty = named(name).getDeclaredConstructor();
                empty.setAccessible(true);
                return RemotingSerializable.encode(empty.newInstance());
            case "filled":
                return RemotingSerializable.encode(fill(blank(named(name)), 0));
            case "pack":
                return RemotingSerializable.decode(given, RegisterBrokerBody.class).encode(true);
            case "unpack":
                return RegisterBrokerBody.decode(given, true, MQVersion.Version.valueOf(name)).encode();
            case "load":
                return JSON.toJSONBytes(new TreeMap<>(MixAll.string2Properties(new String(given, StandardCharsets.UTF_8))));
            case "store":
                Properties properties = new Properties();
                properties.putAll(JSON.parseObject(given, Map.class));
                return MixAll.properties2String(properties, true).getBytes(StandardCharsets.UTF_8);
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line; (line = lines.readLine()) != null; ) {
            String[] parts = line.split("\t", -1);
            try {
                byte[] made = run(parts[0], parts[1], Base64.getDecoder().decode(parts[2]));
                answers.append("= ").append(Base64.getEncoder().encodeToString(made)).append('\n');
            } catch (Throwable problem) {
                byte[] said = problem.toString().getBytes(StandardCharsets.UTF_8);
                answers.append("! ").append(Base64.getEncoder().encodeToString(said)).append('\n');
            }
        }
        System.out.print(answers);
        System.out.flush();
    }

    // An instance as its constructor leaves it, and one with a value in every field. ------------------------------------

    static Object blank(Class<?> type) throws Exception {
        Constructor<?> shortest = null;
        for (Constructor<?> each : type.getDeclaredConstructors()) {
            boolean copies = each.getParameterCount() == 1 && each.getParameterTypes()[0] == type;
            if (copies) {
                continue;
            }
            if (shortest == null || each.getParameterCount() < shortest.getParameterCount()) {
                shortest = each;
            }
        }
        shortest.setAccessible(true);
        Object[] given = new Object[shortest.getParameterCount()];
        for (int i = 0; i < given.length; i++) {
            given[i] = some(shortest.getGenericParameterTypes()[i], 1);
        }
        return shortest.newInstance(given);
    }

    static Object fill(Object object, int depth) throws Exception {
        for (Class<?> type = object.getClass(); type != Object.class; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                boolean constant = Modifier.isFinal(field.getModifiers()) && field.getType().isPrimitive();
                if (Modifier.isStatic(field.getModifiers()) || constant || field.getType() == Random.class) {
                    continue;
                }
                field.setAccessible(true);
                Object value = some(field.getGenericType(), depth + 1);
                if (value != null) {
                    field.set(object, value);
                }
            }
        }
        return object;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Object some(Type type, int depth) throws Exception {
        Class<?> raw = (Class<?>) (type instanceof ParameterizedType ? ((ParameterizedType) type).getRawType() : type);
        Type[] inner = type instanceof ParameterizedType ? ((ParameterizedType) type).getActualTypeArguments() : new Type[0];
        if (raw == String.class) {
            return "s";
        } else if (raw == int.class || raw == Integer.class) {
            return 1;
        } else if (raw == long.class || raw == Long.class) {
            return 2L;
        } else if (raw == boolean.class || raw == Boolean.class) {
            return true;
        } else if (raw == double.class) {
            return 1.5;
        } else if (raw == AtomicLong.class) {
            return new AtomicLong(3);
        } else if (raw == BitSet.class) {
            return BitSet.valueOf(new byte[] {2});
        } else if (raw == long[].class) {
            return new long[] {1};
        } else if (raw.isEnum()) {
            return raw.getEnumConstants()[0];
        } else if (Properties.class == raw) {
            return new Properties();
        } else if (Map.class.isAssignableFrom(raw)) {
            Map map = raw.isAssignableFrom(TreeMap.class) ? new TreeMap() : raw.isAssignableFrom(HashMap.class) ? new HashMap() : new ConcurrentHashMap();
            map.put(some(inner[0], depth + 1), some(inner[1], depth + 1));
            return map;
        } else if (Collection.class.isAssignableFrom(raw)) {
            Collection some = raw.isAssignableFrom(ArrayList.class) ? new ArrayList() : raw.isAssignableFrom(HashSet.class) ? new HashSet() : new TreeSet();
            some.add(some(inner[0], depth + 1));
            return some;
        }
        return depth > 6 || raw.isInterface() ? null : fill(blank(raw), depth);
    }
}
