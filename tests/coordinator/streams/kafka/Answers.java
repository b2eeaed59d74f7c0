// Runs classes of Apache Kafka on the inputs of questions.py: one JSON object per line of input and output.
// java -cp "$KAFKA_HOME/libs/*" Answers.java assign|reconcile|configure < questions > answers

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.streams.CurrentAssignmentBuilder;
import org.apache.kafka.coordinator.group.streams.MemberState;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.TasksTupleWithEpochs;
import org.apache.kafka.coordinator.group.streams.TopologyMetadata;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;

public class Answers {
    static final ObjectMapper JSON = new ObjectMapper().enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            Object answer;
            try {
                answer = switch (args[0]) {
                    case "assign" -> assign(question);
                    case "reconcile" -> reconcile(question);
                    default -> configure(question);
                };
            } catch (RuntimeException error) {
                answer = Map.of("error", error.getClass().getSimpleName());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    static Object assign(JsonNode question) throws Exception {
        TreeMap<String, ConfiguredSubtopology> subtopologies = new TreeMap<>();
        question.get("subtopologies").fields().forEachRemaining(e -> {
            Map<String, ConfiguredInternalTopic> changelogs = new HashMap<>();
            if (e.getValue().get(1).asBoolean()) {
                changelogs.put("c", new ConfiguredInternalTopic("c", 1, Optional.empty(), Map.of()));
            }
            subtopologies.put(e.getKey(), new ConfiguredSubtopology(e.getValue().get(0).asInt(), Set.of(), Map.of(), Set.of(), changelogs));
        });
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        for (JsonNode entry : question.get("members")) {
            JsonNode m = entry.get(1);
            members.put(entry.get(0).asText(), new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(),
                m.get("process").asText(), Map.of(), tasks(m.get("active")), tasks(m.get("standby")), Map.of(),
                offsets(m.get("offsets")), Map.of()));
        }
        GroupAssignment assignment = new StickyTaskAssignor().assign(
            new GroupSpecImpl(members, new AssignmentConfigsImpl(question.get("standbys").asInt(), List.of())),
            new TopologyMetadata(CoordinatorMetadataImage.EMPTY, subtopologies));
        Map<String, Object> answer = new TreeMap<>();
        assignment.members().forEach((id, m) ->
            answer.put(id, Map.of("active", sorted(m.activeTasks()), "standby", sorted(m.standbyTasks()))));
        return answer;
    }

    static Object reconcile(JsonNode question) {
        JsonNode m = question.get("member");
        StreamsGroupMember member = StreamsGroupMember.Builder.withDefaults("m")
            .setMemberEpoch(m.get("epoch").asInt()).setPreviousMemberEpoch(m.get("previous").asInt())
            .setState(MemberState.fromValue((byte) m.get("state").asInt())).setProcessId("p0")
            .setAssignedTasks(assigned(m.get("assigned"))).setTasksPendingRevocation(assigned(m.get("pending"))).build();
        JsonNode holders = question.get("holders");
        StreamsGroupMember next = new CurrentAssignmentBuilder(member)
            .withTargetAssignment(question.get("epoch").asInt(), tuple(question.get("target")))
            .withCurrentActiveTaskProcessId((s, p) -> holders(holders.get("active"), s, p).stream().findFirst().orElse(null))
            .withCurrentStandbyTaskProcessIds((s, p) -> holders(holders.get("standby"), s, p))
            .withCurrentWarmupTaskProcessIds((s, p) -> holders(holders.get("warmup"), s, p))
            .withOwnedAssignment(question.get("owned").isNull() ? null : tuple(question.get("owned"))).build();
        return Map.of("epoch", next.memberEpoch(), "previous", next.previousMemberEpoch(), "state", next.state().value(),
            "assigned", plain(next.assignedTasks()), "pending", plain(next.tasksPendingRevocation()));
    }

    static Set<String> holders(JsonNode node, String subtopology, int partition) {
        Set<String> processes = new TreeSet<>();
        JsonNode listed = node.path(subtopology).path(String.valueOf(partition));
        listed.forEach(process -> processes.add(process.asText()));
        return processes;
    }

    static Object configure(JsonNode question) {
        StreamsGroupTopologyValue value = new StreamsGroupTopologyValue().setEpoch(1);
        for (JsonNode s : question.get("subtopologies")) {
            StreamsGroupTopologyValue.Subtopology one = new StreamsGroupTopologyValue.Subtopology()
                .setSubtopologyId(s.get("id").asText()).setSourceTopics(texts(s.get("sources"))).setSourceTopicRegex(List.of())
                .setRepartitionSinkTopics(texts(s.get("sinks"))).setRepartitionSourceTopics(infos(s.get("repartition")))
                .setStateChangelogTopics(infos(s.get("changelogs"))).setCopartitionGroups(new ArrayList<>());
            for (JsonNode g : s.get("copartition")) {
                one.copartitionGroups().add(new StreamsGroupTopologyValue.CopartitionGroup()
                    .setSourceTopics(shorts(g.get(0))).setRepartitionSourceTopics(shorts(g.get(1))).setSourceTopicRegex(List.of()));
            }
            value.subtopologies().add(one);
        }
        ConfiguredTopology configured = InternalTopicManager.configureTopics(
            org.slf4j.helpers.NOPLogger.NOP_LOGGER, "g", "m", 0L, StreamsTopology.fromRecord(value),
            new Topics(question.get("topics")), Time.SYSTEM);
        Map<String, Object> answer = new TreeMap<>();
        answer.put("status", configured.topicConfigurationException().map(e -> (int) e.status().code()).orElse(null));
        Map<String, Object> subtopologies = new TreeMap<>();
        configured.subtopologies().ifPresent(map -> map.forEach((id, s) -> subtopologies.put(id, Map.of(
            "tasks", s.numberOfTasks(), "repartition", counts(s.repartitionSourceTopics()),
            "changelogs", counts(s.stateChangelogTopics())))));
        answer.put("subtopologies", subtopologies);
        Map<String, Integer> missing = new TreeMap<>();
        configured.internalTopicsToBeCreated().forEach((name, t) -> missing.put(name, t.numPartitions()));
        answer.put("missing", missing);
        return answer;
    }

    static Map<String, Integer> counts(Map<String, ConfiguredInternalTopic> topics) {
        Map<String, Integer> counts = new TreeMap<>();
        topics.forEach((name, topic) -> counts.put(name, topic.numberOfPartitions()));
        return counts;
    }

    static List<StreamsGroupTopologyValue.TopicInfo> infos(JsonNode node) {
        List<StreamsGroupTopologyValue.TopicInfo> infos = new ArrayList<>();
        node.forEach(t -> infos.add(new StreamsGroupTopologyValue.TopicInfo().setName(t.get(0).asText()).setPartitions(t.get(1).asInt())));
        return infos;
    }

    static List<String> texts(JsonNode node) {
        List<String> texts = new ArrayList<>();
        node.forEach(t -> texts.add(t.asText()));
        return texts;
    }

    static List<Short> shorts(JsonNode node) {
        List<Short> shorts = new ArrayList<>();
        node.forEach(t -> shorts.add((short) t.asInt()));
        return shorts;
    }

    static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        node.fields().forEachRemaining(e -> {
            Set<Integer> partitions = new HashSet<>();
            e.getValue().forEach(p -> partitions.add(p.asInt()));
            tasks.put(e.getKey(), partitions);
        });
        return tasks;
    }

    static Map<String, Map<Integer, Integer>> epochs(JsonNode node) {
        Map<String, Map<Integer, Integer>> tasks = new HashMap<>();
        node.fields().forEachRemaining(e -> {
            Map<Integer, Integer> partitions = new HashMap<>();
            e.getValue().fields().forEachRemaining(p -> partitions.put(Integer.valueOf(p.getKey()), p.getValue().asInt()));
            tasks.put(e.getKey(), partitions);
        });
        return tasks;
    }

    static Map<String, Map<Integer, Long>> offsets(JsonNode node) {
        Map<String, Map<Integer, Long>> offsets = new HashMap<>();
        epochs(node).forEach((s, byPartition) -> byPartition.forEach((p, offset) ->
            offsets.computeIfAbsent(s, k -> new HashMap<>()).put(p, (long) offset)));
        return offsets;
    }

    static TasksTuple tuple(JsonNode node) {
        return new TasksTuple(tasks(node.get("active")), tasks(node.get("standby")), tasks(node.get("warmup")));
    }

    static TasksTupleWithEpochs assigned(JsonNode node) {
        return new TasksTupleWithEpochs(epochs(node.get("active")), tasks(node.get("standby")), tasks(node.get("warmup")));
    }

    static Object plain(TasksTupleWithEpochs tasks) {
        return Map.of("active", tasks.activeTasksWithEpochs(), "standby", sorted(tasks.standbyTasks()), "warmup", sorted(tasks.warmupTasks()));
    }

    static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> sorted = new TreeMap<>();
        tasks.forEach((subtopology, partitions) -> sorted.put(subtopology, new TreeSet<>(partitions)));
        return sorted;
    }

    record Topics(JsonNode counts) implements CoordinatorMetadataImage {
        public Set<Uuid> topicIds() {
            return Set.of();
        }

        public Set<String> topicNames() {
            return Set.of();
        }

        public Optional<TopicMetadata> topicMetadata(String name) {
            return counts.has(name) ? Optional.of(new Topic(name, counts.get(name).asInt())) : Optional.empty();
        }

        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.empty();
        }

        public CoordinatorMetadataDelta emptyDelta() {
            return null;
        }

        public long version() {
            return 0;
        }

        public boolean isEmpty() {
            return false;
        }
    }

    record Topic(String name, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        public Uuid id() {
            return Uuid.ZERO_UUID;
        }

        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }
}
