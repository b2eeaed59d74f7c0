import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import javax.management.Attribute;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Reads the MBeans of another Java process. The argument is the port of its JMX agent. Each line of the input is an object name, possibly
 * a pattern; each line of the output is a list of MBeans with their tags and numeric attributes.
 */
public class MBeans {
    public static void main(String[] arguments) throws Exception {
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi");
        MBeanServerConnection server = JMXConnectorFactory.connect(url).getMBeanServerConnection();
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ArrayNode found = json.createArrayNode();
            for (ObjectName name : server.queryNames(new ObjectName(line), null)) {
                ObjectNode bean = found.addObject();
                ObjectNode tags = bean.putObject("tags");
                for (Map.Entry<String, String> tag : name.getKeyPropertyList().entrySet()) {
                    tags.put(tag.getKey(), tag.getValue());
                }
                ObjectNode values = bean.putObject("values");
                MBeanAttributeInfo[] attributes = server.getMBeanInfo(name).getAttributes();
                String[] names = new String[attributes.length];
                for (int i = 0; i < names.length; i++) {
                    names[i] = attributes[i].getName();
                }
                for (Attribute attribute : server.getAttributes(name, names).asList()) {
                    if (attribute.getValue() instanceof Number number) {
                        values.put(attribute.getName(), number.doubleValue());
                    }
                }
            }
            System.out.println(json.writeValueAsString(found));
        }
        System.exit(0);
    }
}
