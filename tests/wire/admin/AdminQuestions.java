import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Calls every method of Admin: BOOTSTRAP STREAMS_GROUP. The output begins with the names of all methods, one per line. Then each line
 * has a method, a label and the result as plain text, separated by tabs.
 */
public class AdminQuestions {
    interface Question {
        Object ask() throws Exception;
    }

    static final int TIMEOUT_S = 20;
    static final String TOPIC = "asked", GROWN = "grown", MADE = "made", NOBODYS = "nobodys";
    static final Uuid NO_SUCH_ID = new Uuid(1, 1);

    final Admin admin;
    final String bootstrap;
    final String streams;

    AdminQuestions(String bootstrap, String streams) {
        this.bootstrap = bootstrap;
        this.streams = streams;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    static void ask(String method, String label, Question question) {
        String answer;
        try {
            answer = plain(question.ask(), 0);
        } catch (Exception failure) {
            answer = name(failure);
        }
        System.out.println(method + "\t" + label + "\t" + answer.replace("\n", " "));
    }

    /** Repeats a call until its result contains a text, because Apache Kafka's broker applies changes later than its controller.
     * Returns the last result after a time limit. */
    static String once(String text, Question question) throws Exception {
        String answer = plain(question.ask(), 0);
        for (int tries = 0; !answer.contains(text) && tries < 10 * TIMEOUT_S; tries++) {
            Thread.sleep(100);
            answer = plain(question.ask(), 0);
        }
        return answer;
    }

    // Results as plain text

    static String name(Throwable failure) {
        boolean wraps = failure instanceof ExecutionException || failure instanceof InvocationTargetException;
        return wraps && failure.getCause() != null ? name(failure.getCause()) : "!" + failure.getClass().getSimpleName();
    }

    /** Returns the text of a value, of a future's value or error, or of an object's getters. Elements of collections are sorted. */
    static String plain(Object value, int depth) {
        if (depth > 12) {
            return "...";
        }
        if (value instanceof KafkaFuture<?> future) {
            try {
                return plain(future.get(TIMEOUT_S, TimeUnit.SECONDS), depth);
            } catch (Exception failure) {
                return name(failure);
            }
        }
        if (value instanceof Throwable failure) {
            return name(failure);
        }
        if (value instanceof Optional<?> optional) {
            return plain(optional.orElse(null), depth);
        }
        if (value instanceof OptionalInt optional) {
            return optional.isPresent() ? Integer.toString(optional.getAsInt()) : "null";
        }
        if (value instanceof OptionalLong optional) {
            return optional.isPresent() ? Long.toString(optional.getAsLong()) : "null";
        }
        if (value instanceof Map<?, ?> map) {
            Map<String, String> texts = new TreeMap<>();
            map.forEach((key, one) -> texts.put(plain(key, depth + 1), plain(one, depth + 1)));
            return texts.toString();
        }
        if (value instanceof Collection<?> many) {
            return many.stream().map(one -> plain(one, depth + 1)).sorted().collect(Collectors.toList()).toString();
        }
        if (value instanceof TopicPartition || value instanceof TopicPartitionReplica || value instanceof ConfigResource) {
            return value.toString();
        }
        if (value instanceof Uuid id) {
            return id.equals(Uuid.ZERO_UUID) ? "no id" : "an id";
        }
        if (value instanceof Node node) {
            return "node " + node.idString() + (node.isFenced() ? " fenced" : "");
        }
        if (value == null || value instanceof Enum<?> || !value.getClass().getName().startsWith("org.apache.kafka")) {
            return value instanceof byte[] bytes ? Arrays.toString(bytes) : String.valueOf(value);
        }
        return ofObject(value, depth);
    }

    static String ofObject(Object value, int depth) {
        Map<String, String> texts = new TreeMap<>();
        for (Method method : value.getClass().getMethods()) {
            boolean isGetter = method.getParameterCount() == 0 && method.getReturnType() != void.class
                && !Modifier.isStatic(method.getModifiers()) && method.getDeclaringClass() != Object.class
                && !Set.of("toString", "hashCode", "clone", "toCompletionStage").contains(method.getName());
            if (!isGetter) {
                continue;
            }
            try {
                method.setAccessible(true);
                texts.put(method.getName(), plain(method.invoke(value), depth + 1));
            } catch (Exception failure) {
                texts.put(method.getName(), name(failure));
            }
        }
        return texts.toString();
    }

    // Topics, groups and transactions that the calls refer to

    static TopicPartition at(String topic, int partition) {
        return new TopicPartition(topic, partition);
    }

    KafkaConsumer<String, String> member(String group, String protocol) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("client.id", "member");
        settings.put("group.protocol", protocol);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(Set.of(TOPIC));
        int read = 0;
        for (int tries = 0; read < 3 && tries < 10 * TIMEOUT_S; tries++) {
            read += consumer.poll(Duration.ofMillis(100)).count();
        }
        consumer.commitSync();
        return consumer;
    }

    KafkaProducer<String, String> producer(String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        if (transactionalId != null) {
            settings.put("transactional.id", transactionalId);
            settings.put("transaction.timeout.ms", "600000");
        }
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    void waitForTopic(String name) throws Exception {
        for (int tries = 0; tries < 10 * TIMEOUT_S; tries++) {
            try {
                admin.describeTopics(List.of(name)).allTopicNames().get();
                return;
            } catch (ExecutionException unknown) {
                Thread.sleep(100);
            }
        }
    }

    // Calls

    void topics() throws Exception {
        NewTopic made = new NewTopic(MADE, 2, (short) 1).configs(Map.of("retention.ms", "1234567"));
        ask("createTopics", "one", () -> admin.createTopics(List.of(made)));
        waitForTopic(MADE);
        ask("createTopics", "one that is there", () -> admin.createTopics(List.of(made)));
        ask("createTopics", "a bad name", () -> admin.createTopics(List.of(new NewTopic("a b", 1, (short) 1))));
        ask("createTopics", "too many replicas", () -> admin.createTopics(List.of(new NewTopic("wide", 1, (short) 3))));
        ask("createTopics", "on a node that is none", () -> admin.createTopics(List.of(new NewTopic("far", Map.of(0, List.of(77))))));
        ask("createTopics", "to see whether one could", () ->
            admin.createTopics(List.of(new NewTopic("perhaps", 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)));
        ask("listTopics", "all", () -> admin.listTopics(new ListTopicsOptions().listInternal(false)));
        ask("describeTopics", "one, and one that is none", () ->
            admin.describeTopics(List.of(MADE, NOBODYS), new DescribeTopicsOptions().includeAuthorizedOperations(true)));
        ask("describeTopics", "an id that is none", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(NO_SUCH_ID))));
        ask("createPartitions", "one more", () -> admin.createPartitions(Map.of(GROWN, NewPartitions.increaseTo(2))));
        ask("createPartitions", "fewer", () -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(1))));
        ask("createPartitions", "of a topic that is none", () -> admin.createPartitions(Map.of(NOBODYS, NewPartitions.increaseTo(3))));
        ask("electLeaders", "a partition", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(at(TOPIC, 0), at(NOBODYS, 0))));
        ask("electLeaders", "uncleanly", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(at(TOPIC, 0))));
        ask("alterPartitionReassignments", "where it is, and elsewhere", () -> admin.alterPartitionReassignments(Map.of(
            at(TOPIC, 0), Optional.of(new NewPartitionReassignment(List.of(1))),
            at(TOPIC, 1), Optional.of(new NewPartitionReassignment(List.of(77))),
            at(GROWN, 0), Optional.empty(), at(NOBODYS, 0), Optional.empty())));
        ask("listPartitionReassignments", "all", () -> admin.listPartitionReassignments());
        ask("listPartitionReassignments", "one", () -> admin.listPartitionReassignments(Set.of(at(TOPIC, 0), at(NOBODYS, 0))));
        ask("deleteTopics", "one, and one that is none", () -> admin.deleteTopics(List.of(MADE, NOBODYS)));
        ask("deleteTopics", "by an id that is none", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(NO_SUCH_ID))));
    }

    void logs() {
        Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
        List<OffsetSpec> all = List.of(OffsetSpec.latest(), OffsetSpec.earliest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(0),
            OffsetSpec.forTimestamp(Long.MAX_VALUE - 1), OffsetSpec.earliestLocal(), OffsetSpec.latestTiered(),
            OffsetSpec.earliestPendingUpload());
        for (OffsetSpec spec : all) {
            String label = spec.getClass().getSimpleName() + all.indexOf(spec);
            ask("listOffsets", label, () -> admin.listOffsets(Map.of(at(TOPIC, 0), spec)).partitionResult(at(TOPIC, 0)));
        }
        ask("listOffsets", "committed", () -> admin.listOffsets(Map.of(at(TOPIC, 1), OffsetSpec.latest()),
            new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(at(TOPIC, 1)));
        ask("listOffsets", "a topic that is none", () ->
            admin.listOffsets(Map.of(at(NOBODYS, 0), OffsetSpec.latest()), new ListOffsetsOptions().timeoutMs(1_000)).all());
        ask("deleteRecords", "two of them", () -> admin.deleteRecords(Map.of(at(TOPIC, 0), RecordsToDelete.beforeOffset(2))));
        ask("deleteRecords", "too many", () -> admin.deleteRecords(Map.of(at(TOPIC, 0), RecordsToDelete.beforeOffset(99))));
        ask("describeLogDirs", "this node's", () -> sizes(admin.describeLogDirs(List.of(1)).allDescriptions().get()));
        ask("describeReplicaLogDirs", "a replica, and one that is none", () ->
            admin.describeReplicaLogDirs(List.of(new TopicPartitionReplica(TOPIC, 0, 1), new TopicPartitionReplica(NOBODYS, 0, 1))));
        ask("alterReplicaLogDirs", "to a directory that is none", () ->
            admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(TOPIC, 0, 1), "/no/such/directory")));
        ask("alterReplicaLogDirs", "of a topic that is none", () -> {
            String here = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).keySet().iterator().next();
            return admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(NOBODYS, 0, 1), here));
        });
    }

    /** Returns each directory's error and its replicas of the topic, without the size of the disk. */
    static List<String> sizes(Map<Integer, Map<String, LogDirDescription>> of) {
        List<String> texts = new ArrayList<>();
        of.forEach((node, directories) -> directories.values().forEach(directory -> {
            Map<TopicPartition, ReplicaInfo> replicas = new HashMap<>(directory.replicaInfos());
            replicas.keySet().removeIf(where -> !where.topic().equals(TOPIC));
            texts.add(node + " " + plain(directory.error(), 0) + " " + plain(replicas, 0));
        }));
        return texts;
    }

    void configs() {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        ConfigResource all = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "configured");
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "watched");
        ConfigResource nobodys = new ConfigResource(ConfigResource.Type.TOPIC, NOBODYS);
        Map<ConfigResource, List<String>> sets = Map.of(topic, List.of("retention.ms", "1234567"), all,
            List.of("message.max.bytes", "1234567"), broker, List.of("log.retention.ms", "7654321"), group,
            List.of("consumer.session.timeout.ms", "50000"), metrics, List.of("interval.ms", "1000"), nobodys,
            List.of("retention.ms", "1"));
        sets.forEach((resource, set) -> ask("incrementalAlterConfigs", resource.type() + " " + resource.name(), () ->
            admin.incrementalAlterConfigs(Map.of(resource, List.of(op(set.get(0), set.get(1)))))));
        ask("incrementalAlterConfigs", "a key that is none", () -> admin.incrementalAlterConfigs(Map.of(topic, List.of(op("no.such", "1")))));
        ask("incrementalAlterConfigs", "a value that is none", () ->
            admin.incrementalAlterConfigs(Map.of(topic, List.of(op("retention.ms", "x")))));
        sets.forEach((resource, set) -> ask("describeConfigs", resource.type() + " " + resource.name(), () -> once("value=" + set.get(1), () ->
            admin.describeConfigs(List.of(resource)).all().get(TIMEOUT_S, TimeUnit.SECONDS).get(resource).get(set.get(0)))));
        ask("describeConfigs", "a topic's", () -> admin.describeConfigs(List.of(topic),
            new DescribeConfigsOptions().includeSynonyms(false)).all().get().get(topic).entries().stream().map(ConfigEntry::name).toList());
        ask("listConfigResources", "all", () -> once("watched", () -> admin.listConfigResources()));
        ask("listConfigResources", "groups", () ->
            once("configured", () -> admin.listConfigResources(Set.of(ConfigResource.Type.GROUP), new ListConfigResourcesOptions())));
        ask("listClientMetricsResources", "all", () -> once("watched", () -> admin.listClientMetricsResources()));
    }

    static AlterConfigOp op(String key, String value) {
        return new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
    }

    void access() {
        ResourcePattern pattern = new ResourcePattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL);
        AccessControlEntry entry = new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW);
        ask("createAcls", "one", () -> admin.createAcls(List.of(new AclBinding(pattern, entry))));
        ask("describeAcls", "all", () -> admin.describeAcls(AclBindingFilter.ANY));
        ask("deleteAcls", "all", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)));
        ask("createDelegationToken", "one", () -> admin.createDelegationToken());
        ask("renewDelegationToken", "one", () -> admin.renewDelegationToken(new byte[] {1}));
        ask("expireDelegationToken", "one", () -> admin.expireDelegationToken(new byte[] {1}));
        ask("describeDelegationToken", "all", () -> admin.describeDelegationToken());
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of("user", "alice"));
        for (var op : List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1000.0), new ClientQuotaAlteration.Op("no_such", 1.0))) {
            ask("alterClientQuotas", op.key(), () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(user, List.of(op)))));
        }
        ask("describeClientQuotas", "all", () -> once("alice", () -> admin.describeClientQuotas(ClientQuotaFilter.all())));
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        ask("alterUserScramCredentials", "set", () ->
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("bob", info, "secret"))));
        ask("alterUserScramCredentials", "too few iterations", () -> admin.alterUserScramCredentials(
            List.of(new UserScramCredentialUpsertion("eve", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1), "secret"))));
        ask("alterUserScramCredentials", "deleted that is none", () ->
            admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_512))));
        ask("describeUserScramCredentials", "all", () -> once("bob", () -> admin.describeUserScramCredentials().all()));
        ask("describeUserScramCredentials", "nobody's", () -> admin.describeUserScramCredentials(List.of("nobody")).all());
    }

    void groups() {
        for (String protocol : List.of("classic", "consumer")) {
            String group = "of-" + protocol;
            KafkaConsumer<String, String> member = member(group, protocol);
            ask("describeConsumerGroups", protocol, () -> admin.describeConsumerGroups(List.of(group, NOBODYS),
                new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)));
            ask("describeClassicGroups", protocol, () -> admin.describeClassicGroups(List.of(group, NOBODYS)));
            ask("listConsumerGroupOffsets", protocol, () -> admin.listConsumerGroupOffsets(group));
            ask("alterConsumerGroupOffsets", protocol + " with a member", () -> admin.alterConsumerGroupOffsets(group,
                Map.of(at(TOPIC, 0), new OffsetAndMetadata(2))));
            ask("deleteConsumerGroupOffsets", protocol + " with a member", () ->
                admin.deleteConsumerGroupOffsets(group, Set.of(at(TOPIC, 0))));
            ask("deleteConsumerGroups", protocol + " with a member", () -> admin.deleteConsumerGroups(List.of(group)));
            ask("listGroups", protocol, () -> admin.listGroups().all());
            ask("removeMembersFromConsumerGroup", protocol + ", one that is none", () -> {
                var options = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("nobody")));
                return admin.removeMembersFromConsumerGroup(group, options).all();
            });
            ask("removeMembersFromConsumerGroup", protocol + ", all", () -> {
                var removed = admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all().get();
                // Close the member before it can rejoin.
                member.close(Duration.ZERO);
                return removed;
            });
            ask("describeConsumerGroups", protocol + " without members", () -> admin.describeConsumerGroups(List.of(group)));
            ask("alterConsumerGroupOffsets", protocol + " without members", () -> admin.alterConsumerGroupOffsets(group,
                Map.of(at(TOPIC, 0), new OffsetAndMetadata(2), at(NOBODYS, 0), new OffsetAndMetadata(2))).all());
            ask("listConsumerGroupOffsets", protocol + " altered", () -> admin.listConsumerGroupOffsets(
                Map.of(group, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(at(TOPIC, 0), at(TOPIC, 1))))));
            ask("deleteConsumerGroupOffsets", protocol + " without members", () ->
                admin.deleteConsumerGroupOffsets(group, Set.of(at(TOPIC, 0), at(NOBODYS, 0))).all());
        }
        ask("listConsumerGroups", "all", () -> admin.listConsumerGroups().all());
        ask("listGroups", "consumers'", () -> admin.listGroups(ListGroupsOptions.forConsumerGroups()).all());
        ask("listGroups", "empty ones", () ->
            admin.listGroups(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY))).all());
        ask("deleteConsumerGroups", "two, and one that is none", () ->
            admin.deleteConsumerGroups(List.of("of-classic", "of-consumer", NOBODYS)));
        ask("alterConsumerGroupOffsets", "of a new group", () ->
            admin.alterConsumerGroupOffsets("altered", Map.of(at(TOPIC, 0), new OffsetAndMetadata(1, "kept"))));
        ask("listConsumerGroupOffsets", "of a new group", () -> admin.listConsumerGroupOffsets("altered"));
        ask("listConsumerGroupOffsets", "of nobody", () -> admin.listConsumerGroupOffsets(NOBODYS));
    }

    void streamsGroups() {
        ask("describeStreamsGroups", "with a member", () -> admin.describeStreamsGroups(List.of(streams, NOBODYS)));
        ask("listGroups", "streams'", () -> admin.listGroups(ListGroupsOptions.forStreamsGroups()).all());
        ask("describeConsumerGroups", "that is for streams", () -> admin.describeConsumerGroups(List.of(streams)));
        ask("alterStreamsGroupOffsets", "with a member", () ->
            admin.alterStreamsGroupOffsets(streams, Map.of(at(TOPIC, 0), new OffsetAndMetadata(1))));
        ask("listStreamsGroupOffsets", "with a member", () ->
            admin.listStreamsGroupOffsets(Map.of(streams, new ListStreamsGroupOffsetsSpec())));
        ask("deleteStreamsGroupOffsets", "with a member", () -> admin.deleteStreamsGroupOffsets(streams, Set.of(at(TOPIC, 0))));
        ask("deleteStreamsGroups", "with a member", () -> admin.deleteStreamsGroups(List.of(streams, NOBODYS)));
        ask("alterStreamsGroupOffsets", "of a new group", () ->
            admin.alterStreamsGroupOffsets("streams-altered", Map.of(at(TOPIC, 0), new OffsetAndMetadata(1))));
        ask("listStreamsGroupOffsets", "of a new group", () ->
            admin.listStreamsGroupOffsets(Map.of("streams-altered", new ListStreamsGroupOffsetsSpec())));
        ask("deleteStreamsGroupOffsets", "of a new group", () ->
            admin.deleteStreamsGroupOffsets("streams-altered", Set.of(at(TOPIC, 0))));
        ask("deleteStreamsGroups", "a new group", () -> admin.deleteStreamsGroups(List.of("streams-altered")));
    }

    /** Whether a member has both partitions. The group does not exist before the member's first heartbeat. */
    boolean sharesAll(String group) throws Exception {
        try {
            return admin.describeShareGroups(List.of(group)).all().get().get(group).members().stream()
                .anyMatch(one -> one.assignment().topicPartitions().size() == 2);
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof GroupIdNotFoundException) {
                return false;
            }
            throw failure;
        }
    }

    void shareGroups() throws Exception {
        String group = "of-share";
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", group);
        try (var member = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            member.subscribe(List.of(TOPIC));
            for (boolean hasAll = false; !hasAll; ) {
                member.poll(Duration.ofMillis(100));
                hasAll = sharesAll(group);
            }
            ask("describeShareGroups", "with a member", () -> admin.describeShareGroups(List.of(group, NOBODYS)));
            ask("listGroups", "share groups'", () -> admin.listGroups(ListGroupsOptions.forShareGroups()).all());
            ask("describeConsumerGroups", "that is for sharing", () -> admin.describeConsumerGroups(List.of(group)));
            ask("alterShareGroupOffsets", "with a member", () -> admin.alterShareGroupOffsets(group, Map.of(at(TOPIC, 0), 1L)));
            ask("deleteShareGroupOffsets", "with a member", () -> admin.deleteShareGroupOffsets(group, Set.of(TOPIC)));
            ask("deleteShareGroups", "with a member", () -> admin.deleteShareGroups(List.of(group, NOBODYS)));
        }
        ask("describeShareGroups", "without members", () -> admin.describeShareGroups(List.of(group)));
        ask("alterShareGroupOffsets", "without members", () ->
            admin.alterShareGroupOffsets(group, Map.of(at(TOPIC, 0), 1L, at(NOBODYS, 0), 1L)));
        ask("listShareGroupOffsets", "altered, and of nobody", () ->
            admin.listShareGroupOffsets(Map.of(group, offsetsOf(at(TOPIC, 0)), NOBODYS, offsetsOf(at(TOPIC, 0)))));
        ask("deleteShareGroupOffsets", "one, and a topic that is none", () -> admin.deleteShareGroupOffsets(group, Set.of(TOPIC, NOBODYS)));
        ask("listShareGroupOffsets", "deleted", () -> admin.listShareGroupOffsets(Map.of(group, offsetsOf(at(TOPIC, 0)))));
        ask("deleteShareGroups", "without members", () -> admin.deleteShareGroups(List.of(group)));
    }

    static ListShareGroupOffsetsSpec offsetsOf(TopicPartition partition) {
        return new ListShareGroupOffsetsSpec().topicPartitions(List.of(partition));
    }

    void transactions() throws Exception {
        KafkaProducer<String, String> producer = producer("open");
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(TOPIC, 1, "k", "open")).get();
        ask("listTransactions", "all", () -> admin.listTransactions().all());
        ask("listTransactions", "ongoing", () ->
            admin.listTransactions(new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING))).all());
        ask("listTransactions", "by a pattern", () ->
            admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("op.*")).all());
        ask("describeTransactions", "one", () -> admin.describeTransactions(List.of("open")).all());
        ask("describeTransactions", "one that is none", () -> admin.describeTransactions(List.of(NOBODYS)).all());
        ask("describeProducers", "a partition's, and one that is none", () ->
            admin.describeProducers(List.of(at(TOPIC, 1))).partitionResult(at(TOPIC, 1)));
        ask("describeProducers", "a topic that is none", () -> admin.describeProducers(List.of(at(NOBODYS, 0)),
            new DescribeProducersOptions().timeoutMs(1_000)).all());
        ask("abortTransaction", "of nobody", () -> admin.abortTransaction(new AbortTransactionSpec(at(TOPIC, 1), 4711, (short) 0, 0)));
        ProducerState state = admin.describeProducers(List.of(at(TOPIC, 1))).partitionResult(at(TOPIC, 1)).get().activeProducers().stream()
            .filter(one -> one.currentTransactionStartOffset().isPresent()).findFirst().orElseThrow();
        ask("abortTransaction", "of an old epoch", () -> admin.abortTransaction(new AbortTransactionSpec(at(TOPIC, 1), state.producerId(),
            (short) (state.producerEpoch() - 1), state.coordinatorEpoch().orElse(0))));
        ask("forceTerminateTransaction", "an open one", () -> admin.forceTerminateTransaction("open"));
        ask("forceTerminateTransaction", "one that is over", () -> admin.forceTerminateTransaction("open"));
        ask("describeTransactions", "one that was ended", () -> admin.describeTransactions(List.of("open")).all());
        KafkaProducer<String, String> fenced = producer("fenced");
        fenced.initTransactions();
        fenced.beginTransaction();
        fenced.send(new ProducerRecord<>(TOPIC, 1, "k", "fenced")).get();
        ask("fenceProducers", "one, and a new one", () -> admin.fenceProducers(List.of("fenced", "fresh")).all());
        ask("describeTransactions", "one that was fenced", () -> admin.describeTransactions(List.of("fenced")).all());
        ask("listOffsets", "committed again", () -> admin.listOffsets(Map.of(at(TOPIC, 1), OffsetSpec.latest()),
            new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(at(TOPIC, 1)));
        producer.close(Duration.ZERO);
        fenced.close(Duration.ZERO);
    }

    void cluster() throws Exception {
        ask("describeCluster", "with operations", () ->
            admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true)));
        ask("describeCluster", "with fenced brokers", () -> admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true)));
        FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
        for (String feature : features.supportedFeatures().keySet()) {
            ask("describeFeatures", feature, () -> Arrays.asList(features.supportedFeatures().get(feature),
                features.finalizedFeatures().get(feature)));
        }
        FeatureUpdate newest = new FeatureUpdate((short) 99, FeatureUpdate.UpgradeType.UPGRADE);
        ask("updateFeatures", "one that is none", () -> admin.updateFeatures(Map.of("no.such", newest), new UpdateFeaturesOptions()));
        ask("updateFeatures", "beyond the newest", () ->
            admin.updateFeatures(Map.of("transaction.version", newest), new UpdateFeaturesOptions()));
        FeatureUpdate older = new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
        ask("updateFeatures", "back, to see whether one could", () ->
            admin.updateFeatures(Map.of("transaction.version", older), new UpdateFeaturesOptions().validateOnly(true)));
        ask("describeMetadataQuorum", "all", () -> {
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            return List.of(quorum.leaderId(), quorum.voters().stream().map(QuorumInfo.ReplicaState::replicaId).toList(), quorum.observers());
        });
        ask("unregisterBroker", "one that is none", () -> admin.unregisterBroker(77).all());
        ask("unregisterController", "one that is none", () -> admin.unregisterController(77).all());
        Set<RaftVoterEndpoint> somewhere = Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9));
        ask("addRaftVoter", "this node", () -> admin.addRaftVoter(1, NO_SUCH_ID, somewhere).all());
        ask("removeRaftVoter", "nobody", () -> admin.removeRaftVoter(77, NO_SUCH_ID).all());
        ask("clientInstanceId", "within a second", () -> admin.clientInstanceId(Duration.ofSeconds(1)));
        ask("metrics", "of requests", () -> admin.metrics().keySet().stream().anyMatch(one -> one.name().equals("request-total")));
    }

    public static void main(String[] arguments) throws Exception {
        Arrays.stream(Admin.class.getMethods()).map(Method::getName).distinct().sorted().forEach(System.out::println);
        AdminQuestions questions = new AdminQuestions(arguments[0], arguments[1]);
        try (KafkaProducer<String, String> producer = questions.producer(null)) {
            for (int number = 0; number < 3; number++) {
                producer.send(new ProducerRecord<>(TOPIC, 0, "k", "v" + number)).get();
            }
        }
        questions.streamsGroups();
        questions.cluster();
        questions.topics();
        questions.configs();
        questions.access();
        questions.groups();
        questions.shareGroups();
        questions.logs();
        questions.transactions();
        ask("close", "at once", () -> {
            questions.admin.close(Duration.ofSeconds(1));
            return "closed";
        });
        System.exit(0);
    }
}
