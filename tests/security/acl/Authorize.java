import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.metadata.authorizer.StandardAuthorizerData;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.MetricValueProvider;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.Sensor;

/**
 * Runs Kafka's StandardAuthorizer. Each line of the input is a JSON object with ACLs and checks; each line of the output has the
 * results.
 */
public class Authorize {
    private static final ObjectMapper JSON = new ObjectMapper();

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    private static final class Unmeasured implements PluginMetrics {
        private final Metrics metrics = new Metrics();

        public MetricName metricName(String name, String description, java.util.LinkedHashMap<String, String> tags) {
            return metrics.metricName(name, "plugins", description, tags);
        }

        public void addMetric(MetricName name, MetricValueProvider<?> provider) { }
        public void removeMetric(MetricName name) { }
        public Sensor addSensor(String name) { return metrics.sensor(name); }
        public void removeSensor(String name) { }
    }

    private static final PluginMetrics UNMEASURED = new Unmeasured();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
        out.flush();
    }

    private static ObjectNode answer(JsonNode question) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            "super.users", question.get("super_users").asText(),
            "allow.everyone.if.no.acl.found", question.get("allows_without_acl").asText()));
        authorizer.withPluginMetrics(UNMEASURED);
        for (JsonNode acl : question.get("acls")) {
            authorizer.addAcl(Uuid.randomUuid(), standardAcl(acl));
        }
        authorizer.completeInitialLoad();
        ObjectNode results = JSON.createObjectNode();
        ArrayNode rules = results.putArray("rules");
        for (JsonNode check : question.get("checks")) {
            rules.add(rule(authorizer, check));
        }
        ArrayNode byType = results.putArray("by_type");
        for (JsonNode check : question.get("by_type")) {
            byType.add(authorizer.authorizeByResourceType(
                client(check), operation(check.get(3)), resourceType(check.get(4))) == AuthorizationResult.ALLOWED);
        }
        ArrayNode filtered = results.putArray("filtered");
        for (JsonNode filter : question.get("filters")) {
            filtered.add(matching(filter, question.get("acls")));
        }
        return results;
    }

    /** The result of a check, and the rule that decided. The rule is only in the private parts and the audit log of the authorizer. */
    private static String rule(StandardAuthorizer authorizer, JsonNode check) throws Exception {
        Client client = client(check);
        Action action = new Action(operation(check.get(3)),
            new ResourcePattern(resourceType(check.get(4)), check.get(5).asText(), PatternType.LITERAL), 1, true, false);
        AuthorizationResult result = authorizer.authorize(client, java.util.List.of(action)).get(0);
        Field dataField = StandardAuthorizer.class.getDeclaredField("data");
        dataField.setAccessible(true);
        StandardAuthorizerData data = (StandardAuthorizerData) dataField.get(authorizer);
        Method superUsers = StandardAuthorizerData.class.getDeclaredMethod("superUsers");
        superUsers.setAccessible(true);
        if (((Set<?>) superUsers.invoke(data)).contains(client.principal().toString())) {
            return result + " SuperUser";
        }
        Method find = StandardAuthorizerData.class.getDeclaredMethod("findAclRule", Set.class, String.class, Action.class);
        find.setAccessible(true);
        Set<KafkaPrincipal> principals = client.principal().equals(StandardAuthorizerData.WILDCARD_KAFKA_PRINCIPAL)
            ? Set.of(client.principal()) : Set.of(client.principal(), StandardAuthorizerData.WILDCARD_KAFKA_PRINCIPAL);
        return result + " " + find.invoke(data, principals, client.clientAddress().getHostAddress(), action);
    }

    private static ArrayNode matching(JsonNode filter, JsonNode acls) {
        AclBindingFilter binding = new AclBindingFilter(
            new ResourcePatternFilter(resourceType(filter.get(0)), text(filter.get(1)), patternType(filter.get(2))),
            new AccessControlEntryFilter(text(filter.get(3)), text(filter.get(4)), operation(filter.get(5)), permission(filter.get(6))));
        ArrayNode found = JSON.createArrayNode();
        for (int i = 0; i < acls.size(); i++) {
            if (binding.matches(standardAcl(acls.get(i)).toBinding())) {
                found.add(i);
            }
        }
        return found;
    }

    private static Client client(JsonNode check) throws Exception {
        return new Client(new KafkaPrincipal(check.get(0).asText(), check.get(1).asText()), InetAddress.getByName(check.get(2).asText()));
    }

    private static StandardAcl standardAcl(JsonNode acl) {
        return new StandardAcl(resourceType(acl.get(0)), acl.get(1).asText(), patternType(acl.get(2)), acl.get(3).asText(),
            acl.get(4).asText(), operation(acl.get(5)), permission(acl.get(6)));
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static ResourceType resourceType(JsonNode code) {
        return ResourceType.fromCode((byte) code.asInt());
    }

    private static PatternType patternType(JsonNode code) {
        return PatternType.fromCode((byte) code.asInt());
    }

    private static AclOperation operation(JsonNode code) {
        return AclOperation.fromCode((byte) code.asInt());
    }

    private static AclPermissionType permission(JsonNode code) {
        return AclPermissionType.fromCode((byte) code.asInt());
    }
}
