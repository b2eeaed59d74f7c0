import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * Reads one group per line as JSON, runs an assignor of Apache Kafka on it, and writes the assignment as one line of JSON.
 * See kafkas_assignors.py.
 */
public class Assign {
    static final Map<String, PartitionAssignor> ASSIGNORS =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor(), "simple", new SimpleAssignor());

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(json.writeValueAsString(assigned(json.readTree(line))));
        }
    }

    static Map<String, Map<String, Set<Integer>>> assigned(JsonNode group) {
        Map<Uuid, Integer> counts = new HashMap<>();
        group.get("partition_counts").fields().forEachRemaining(e -> counts.put(topicId(e.getKey()), e.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode member : group.get("members")) {
            String id = member.get("id").asText();
            Set<Uuid> subscribed = new LinkedHashSet<>();
            member.get("subscribed").forEach(topic -> subscribed.add(topicId(topic.asText())));
            subscriptions.add(subscribed);
            Map<Uuid, Set<Integer>> before = partitions(member.get("assigned"));
            before.forEach((topic, of) -> of.forEach(p -> owners.computeIfAbsent(topic, t -> new HashMap<>()).put(p, id)));
            JsonNode instance = member.get("instance_id");
            Optional<String> instanceId = instance.isNull() ? Optional.empty() : Optional.of(instance.asText());
            Assignment assignment = new Assignment(before);
            members.put(id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instanceId, subscribed, assignment));
        }
        SubscriptionType type = subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        Optional<Map<Uuid, Set<Integer>>> assignable =
            group.get("assignable").isNull() ? Optional.empty() : Optional.of(partitions(group.get("assignable")));
        GroupSpec spec = new GroupSpecImpl(members, type, owners, assignable);
        GroupAssignment assignment = ASSIGNORS.get(group.get("assignor").asText()).assign(spec, topics);
        Map<String, Map<String, Set<Integer>>> answer = new TreeMap<>();
        assignment.members().forEach((id, member) -> {
            Map<String, Set<Integer>> byTopic = answer.computeIfAbsent(id, i -> new TreeMap<>());
            member.partitions().forEach((topic, of) -> byTopic.put(text(topic), new TreeSet<>(of)));
        });
        return answer;
    }

    static Map<Uuid, Set<Integer>> partitions(JsonNode node) {
        Map<Uuid, Set<Integer>> partitions = new LinkedHashMap<>();
        node.fields().forEachRemaining(e -> {
            Set<Integer> of = partitions.computeIfAbsent(topicId(e.getKey()), t -> new LinkedHashSet<>());
            e.getValue().forEach(partition -> of.add(partition.asInt()));
        });
        return partitions;
    }

    static Uuid topicId(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    static String text(Uuid topic) {
        return String.format("%016x%016x", topic.getMostSignificantBits(), topic.getLeastSignificantBits());
    }
}
