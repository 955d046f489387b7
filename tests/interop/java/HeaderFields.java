import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.rocketmq.common.action.Action;
import org.apache.rocketmq.common.action.RocketMQAction;
import org.apache.rocketmq.common.resource.RocketMQResource;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.annotation.CFNotNull;
import org.apache.rocketmq.remoting.protocol.RemotingSysResponseCode;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;

/**
 * What Apache's remoting jar says about itself, one line each, columns separated by tabs:
 *
 *   header    class  code or -  resource or -  actions or -
 *   field     class  name  type  required or optional  resource or -  separator or -
 *   request   name   code
 *   response  name   code
 */
public class HeaderFields {
    public static void main(String[] arguments) throws Exception {
        for (Class<?> type : headers()) {
            describe(type);
        }
        codes("request", RequestCode.class);
        codes("response", RemotingSysResponseCode.class);
        codes("response", ResponseCode.class);
    }

    static List<Class<?>> headers() throws Exception {
        Path location = Path.of(CommandCustomHeader.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        List<Class<?>> found = new ArrayList<>();
        try (JarFile jar = new JarFile(location.toFile())) {
            for (JarEntry entry : (Iterable<JarEntry>) jar.stream()::iterator) {
                if (!entry.getName().endsWith(".class")) {
                    continue;
                }
                String name = entry.getName().replace('/', '.').replaceAll("\\.class$", "");
                if (!name.startsWith("org.apache.rocketmq.remoting.")) {
                    continue;
                }
                Class<?> type = Class.forName(name, false, HeaderFields.class.getClassLoader());
                boolean concrete = !type.isInterface() && !Modifier.isAbstract(type.getModifiers());
                if (concrete && CommandCustomHeader.class.isAssignableFrom(type)) {
                    found.add(type);
                }
            }
        }
        return found;
    }

    static void describe(Class<?> type) {
        RocketMQAction needs = type.getAnnotation(RocketMQAction.class);
        if (needs == null) {
            print("header", type.getSimpleName(), "-", "-", "-");
        } else {
            List<String> actions = new ArrayList<>();
            for (Action action : needs.action()) {
                actions.add(action.name());
            }
            print("header", type.getSimpleName(), String.valueOf(needs.value()), needs.resource().name(), String.join(",", actions));
        }
        for (Class<?> part = type; part != Object.class; part = part.getSuperclass()) {
            for (Field field : part.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers())) {
                    continue;
                }
                RocketMQResource resource = field.getAnnotation(RocketMQResource.class);
                print(
                    "field",
                    type.getSimpleName(),
                    field.getName(),
                    field.getType().getSimpleName(),
                    field.isAnnotationPresent(CFNotNull.class) ? "required" : "optional",
                    resource == null ? "-" : resource.value().name(),
                    resource == null || resource.splitter().isEmpty() ? "-" : resource.splitter());
            }
        }
    }

    static void codes(String kind, Class<?> type) throws Exception {
        for (Field field : type.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && field.get(null) instanceof Number) { // a few are shorts
                print(kind, field.getName(), String.valueOf(field.get(null)));
            }
        }
    }

    static void print(String... columns) {
        System.out.println(String.join("\t", columns));
    }
}
