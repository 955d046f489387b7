import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;

/** Prints every key that Apache's servers read from a configuration file: class, key, default; a key is a setter's name. */
public class ConfigKeys {
    public static void main(String[] classes) throws Exception {
        for (String name : classes) {
            Object config = Class.forName(name).getDeclaredConstructor().newInstance();
            for (Method method : config.getClass().getMethods()) {
                if (method.getName().startsWith("set") && method.getParameterCount() == 1 && !Modifier.isStatic(method.getModifiers())) {
                    String key = method.getName().substring(3, 4).toLowerCase() + method.getName().substring(4);
                    System.out.println(config.getClass().getSimpleName() + "\t" + key + "\t" + valueOf(config, key));
                }
            }
        }
    }

    private static String valueOf(Object config, String key) throws Exception {
        for (Class<?> type = config.getClass(); type != Object.class; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(key);
                field.setAccessible(true);
                Object value = field.get(config);
                return value == null ? "" : value.toString().replaceAll("\\s+", " ");
            } catch (NoSuchFieldException error) {
                continue;
            }
        }
        return "";
    }
}
