// Calls every method of kadm, franz-go's admin client: BOOTSTRAP. The output has the format of AdminQuestions.java: first the names of
// all methods, then lines with a method, a label and the result, separated by tabs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic   = "of-kadm"
	grown   = "grown-by-kadm"
	nobodys = "nobodys"
	group   = "group-of-kadm"
	wait    = 20 * time.Second
)

// ask prints the result of a call. It retries while the coordinator is not available.
func ask(method, label string, question func(context.Context) (any, error)) {
	askUntil(func(string) bool { return true }, method, label, question)
}

// askUntil repeats a call until isSettled, because Apache Kafka's broker applies changes later than its controller.
func askUntil(isSettled func(string) bool, method, label string, question func(context.Context) (any, error)) {
	deadline := time.Now().Add(wait)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		answer, err := question(ctx)
		cancel()
		text := plain(answer, err)
		if (retriable(err) || !isSettled(text)) && time.Now().Before(deadline) {
			time.Sleep(200 * time.Millisecond)
			continue
		}
		fmt.Printf("kadm.%s\t%s\t%s\n", method, label, text)
		return
	}
}

func retriable(err error) bool {
	var refusal *kerr.Error
	return errors.As(err, &refusal) && refusal.Retriable && refusal != kerr.UnknownTopicOrPartition
}

func plain(answer any, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Sprintf("%+v", answer)
	}
	return string(text)
}

func hasCoordinator(answer string) bool {
	return !strings.Contains(answer, "COORDINATOR_NOT_AVAILABLE")
}

func text(value string) *string { return &value }

func offsets(at int64) kadm.Offsets {
	var asked kadm.Offsets
	asked.AddOffset(topic, 0, at, -1)
	return asked
}

func partition(name string) kadm.TopicsSet {
	var asked kadm.TopicsSet
	asked.Add(name, 0)
	return asked
}

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	methods := reflect.TypeOf(admin)
	for at := range methods.NumMethod() {
		fmt.Printf("kadm.%s\n", methods.Method(at).Name)
	}
	topics(admin)
	produce(client)
	records(admin)
	groups(admin)
	shareGroups(admin)
	configs(admin)
	transactions(admin)
	security(admin)
	cluster(admin)
	removals(admin)
}

func produce(client *kgo.Client) {
	for at := range 5 {
		record := &kgo.Record{Value: []byte{byte(at)}, Partition: 0, Timestamp: time.UnixMilli(1_700_000_000_000 + int64(at))}
		if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			panic(err)
		}
	}
}

func topics(admin *kadm.Client) {
	configs := map[string]*string{"retention.ms": text("-1")}
	ask("ValidateCreateTopics", "a new one", func(ctx context.Context) (any, error) {
		return admin.ValidateCreateTopics(ctx, 2, 1, configs, topic)
	})
	ask("CreateTopics", "two", func(ctx context.Context) (any, error) {
		return admin.CreateTopics(ctx, 2, 1, configs, topic, grown)
	})
	ask("CreateTopic", "one that is there", func(ctx context.Context) (any, error) {
		return admin.CreateTopic(ctx, 2, 1, configs, topic)
	})
	ask("CreateTopics", "bad ones", func(ctx context.Context) (any, error) {
		return admin.CreateTopics(ctx, 0, 1, configs, "none", "a b")
	})
	ask("ValidateCreatePartitions", "one more", func(ctx context.Context) (any, error) {
		return admin.ValidateCreatePartitions(ctx, 1, grown)
	})
	ask("CreatePartitions", "one more", func(ctx context.Context) (any, error) { return admin.CreatePartitions(ctx, 1, grown) })
	ask("ValidateUpdatePartitions", "less", func(ctx context.Context) (any, error) {
		return admin.ValidateUpdatePartitions(ctx, 2, grown)
	})
	ask("UpdatePartitions", "more", func(ctx context.Context) (any, error) { return admin.UpdatePartitions(ctx, 5, grown) })
	askUntil(func(answer string) bool { return strings.Contains(answer, `"4":{"Topic"`) }, "ListTopics", "by name", func(ctx context.Context) (any, error) { return admin.ListTopics(ctx, topic, grown, nobodys) })
	ask("ListTopicsWithInternal", "by name", func(ctx context.Context) (any, error) {
		return admin.ListTopicsWithInternal(ctx, topic, nobodys)
	})
	ask("Metadata", "by name", func(ctx context.Context) (any, error) { return admin.Metadata(ctx, topic, nobodys) })
}

func records(admin *kadm.Client) {
	names := []string{topic, nobodys}
	ask("ListStartOffsets", "of both", func(ctx context.Context) (any, error) { return admin.ListStartOffsets(ctx, names...) })
	ask("ListEndOffsets", "of both", func(ctx context.Context) (any, error) { return admin.ListEndOffsets(ctx, names...) })
	ask("ListCommittedOffsets", "of both", func(ctx context.Context) (any, error) { return admin.ListCommittedOffsets(ctx, names...) })
	ask("ListMaxTimestampOffsets", "of one", func(ctx context.Context) (any, error) { return admin.ListMaxTimestampOffsets(ctx, topic) })
	ask("ListLocalLogStartOffsets", "of one", func(ctx context.Context) (any, error) { return admin.ListLocalLogStartOffsets(ctx, topic) })
	ask("ListLatestRemoteOffsets", "of one", func(ctx context.Context) (any, error) { return admin.ListLatestRemoteOffsets(ctx, topic) })
	ask("ListOffsetsAfterMilli", "of one", func(ctx context.Context) (any, error) {
		return admin.ListOffsetsAfterMilli(ctx, 1_700_000_000_003, topic)
	})
	ask("DeleteRecords", "two", func(ctx context.Context) (any, error) { return admin.DeleteRecords(ctx, offsets(2)) })
	ask("DeleteRecords", "beyond the end", func(ctx context.Context) (any, error) { return admin.DeleteRecords(ctx, offsets(99)) })
	var epochs kadm.OffsetForLeaderEpochRequest
	epochs.Add(topic, 0, 0)
	epochs.Add(nobodys, 0, 0)
	ask("OffsetForLeaderEpoch", "of both", func(ctx context.Context) (any, error) { return admin.OffsetForLeaderEpoch(ctx, epochs) })
	ask("OffetForLeaderEpoch", "as it was once called", func(ctx context.Context) (any, error) { return admin.OffetForLeaderEpoch(ctx, epochs) })
	ask("DescribeProducers", "of both", func(ctx context.Context) (any, error) {
		asked := partition(topic)
		asked.Add(nobodys, 0)
		return admin.DescribeProducers(ctx, asked)
	})
	ask("DescribeAllLogDirs", "of one", func(ctx context.Context) (any, error) {
		described, err := admin.DescribeAllLogDirs(ctx, partition(topic))
		return len(described), err
	})
	ask("DescribeBrokerLogDirs", "of one", func(ctx context.Context) (any, error) {
		described, err := admin.DescribeBrokerLogDirs(ctx, 1, partition(topic))
		return described.Size() > 0, err
	})
}

func groups(admin *kadm.Client) {
	askUntil(hasCoordinator, "FindGroupCoordinators", "of two", func(ctx context.Context) (any, error) {
		return admin.FindGroupCoordinators(ctx, group, nobodys), nil
	})
	ask("CommitOffsets", "of a new group", func(ctx context.Context) (any, error) { return admin.CommitOffsets(ctx, group, offsets(3)) })
	ask("CommitAllOffsets", "of a new group", func(ctx context.Context) (any, error) {
		return nil, admin.CommitAllOffsets(ctx, group, offsets(4))
	})
	byID := func(ctx context.Context, at int64) kadm.OffsetsByID {
		var asked kadm.OffsetsByID
		listed, _ := admin.ListTopics(ctx, topic)
		asked.Add(kadm.Offset{Topic: topic, TopicID: listed[topic].ID, Partition: 0, At: at, LeaderEpoch: -1})
		return asked
	}
	ask("CommitOffsetsByID", "of a group", func(ctx context.Context) (any, error) {
		committed, err := admin.CommitOffsetsByID(ctx, group, byID(ctx, 3))
		return len(committed), err
	})
	ask("CommitAllOffsetsByID", "of a group", func(ctx context.Context) (any, error) {
		return nil, admin.CommitAllOffsetsByID(ctx, group, byID(ctx, 4))
	})
	ask("FetchOffsets", "of a group", func(ctx context.Context) (any, error) { return admin.FetchOffsets(ctx, group) })
	ask("FetchOffsets", "of nobody", func(ctx context.Context) (any, error) { return admin.FetchOffsets(ctx, nobodys) })
	ask("FetchOffsetsForTopics", "of a group", func(ctx context.Context) (any, error) {
		return admin.FetchOffsetsForTopics(ctx, group, topic, grown)
	})
	ask("FetchManyOffsets", "of two", func(ctx context.Context) (any, error) { return admin.FetchManyOffsets(ctx, group, nobodys), nil })
	ask("FetchOffsetsByID", "of a group", func(ctx context.Context) (any, error) {
		fetched, err := admin.FetchOffsetsByID(ctx, group)
		return len(fetched), err
	})
	ask("Lag", "of two", func(ctx context.Context) (any, error) {
		lags, err := admin.Lag(ctx, group, nobodys)
		totals := map[string]int64{}
		for name, lag := range lags {
			totals[name+" "+lag.State] = lag.Lag.Total()
		}
		return totals, err
	})
	ask("ListGroups", "all", func(ctx context.Context) (any, error) {
		listed, err := admin.ListGroups(ctx)
		return listed[group], err
	})
	ask("ListGroups", "of a state", func(ctx context.Context) (any, error) { return admin.ListGroups(ctx, "Dead") })
	ask("ListGroupsByType", "of a type", func(ctx context.Context) (any, error) { return admin.ListGroupsByType(ctx, []string{"consumer"}) })
	ask("DescribeGroups", "of two", func(ctx context.Context) (any, error) { return admin.DescribeGroups(ctx, group, nobodys) })
	ask("DescribeConsumerGroups", "of two", func(ctx context.Context) (any, error) {
		return admin.DescribeConsumerGroups(ctx, group, nobodys)
	})
	ask("LeaveGroup", "of an instance that is none", func(ctx context.Context) (any, error) {
		return admin.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("i").Reason("a question"))
	})
	ask("DeleteOffsets", "of a group", func(ctx context.Context) (any, error) {
		return admin.DeleteOffsets(ctx, group, partition(topic))
	})
	ask("DeleteOffsets", "of nobody", func(ctx context.Context) (any, error) {
		return admin.DeleteOffsets(ctx, nobodys, partition(topic))
	})
	ask("DeleteGroup", "of nobody", func(ctx context.Context) (any, error) { return admin.DeleteGroup(ctx, nobodys) })
	ask("DeleteGroups", "of two", func(ctx context.Context) (any, error) { return admin.DeleteGroups(ctx, group, nobodys) })
}

func shareGroups(admin *kadm.Client) {
	const sharers = "sharers-of-kadm"
	ask("AlterShareGroupOffsets", "of a new group", func(ctx context.Context) (any, error) {
		return admin.AlterShareGroupOffsets(ctx, sharers, offsets(3))
	})
	ask("DescribeShareGroups", "of two", func(ctx context.Context) (any, error) {
		return admin.DescribeShareGroups(ctx, sharers, nobodys)
	})
	ask("DescribeShareGroupOffsets", "of a group", func(ctx context.Context) (any, error) {
		return admin.DescribeShareGroupOffsets(ctx, sharers)
	})
	ask("DeleteShareGroupOffsets", "of a group", func(ctx context.Context) (any, error) {
		return admin.DeleteShareGroupOffsets(ctx, sharers, topic, nobodys)
	})
}

func configs(admin *kadm.Client) {
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: text("100000")}}
	wrong := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: text("soon")}}
	ask("ValidateAlterTopicConfigs", "one", func(ctx context.Context) (any, error) {
		return admin.ValidateAlterTopicConfigs(ctx, change, topic)
	})
	ask("AlterTopicConfigs", "of both", func(ctx context.Context) (any, error) {
		return admin.AlterTopicConfigs(ctx, change, topic, nobodys)
	})
	ask("AlterTopicConfigs", "a wrong value", func(ctx context.Context) (any, error) { return admin.AlterTopicConfigs(ctx, wrong, topic) })
	ask("ValidateAlterTopicConfigsState", "one", func(ctx context.Context) (any, error) {
		return admin.ValidateAlterTopicConfigsState(ctx, change, topic)
	})
	ask("AlterTopicConfigsState", "one", func(ctx context.Context) (any, error) {
		return admin.AlterTopicConfigsState(ctx, change, topic)
	})
	ask("DescribeTopicConfigs", "of both", func(ctx context.Context) (any, error) {
		described, err := admin.DescribeTopicConfigs(ctx, topic, nobodys)
		for _, resource := range described {
			slices.SortFunc(resource.Configs, func(one, other kadm.Config) int { return strings.Compare(one.Key, other.Key) })
		}
		return described, err
	})
	ofBroker := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.retention.ms", Value: text("600000")}}
	ask("ValidateAlterBrokerConfigs", "one", func(ctx context.Context) (any, error) {
		return admin.ValidateAlterBrokerConfigs(ctx, ofBroker, 1)
	})
	ask("AlterBrokerConfigs", "one", func(ctx context.Context) (any, error) { return admin.AlterBrokerConfigs(ctx, ofBroker, 1) })
	ask("ValidateAlterBrokerConfigsState", "one", func(ctx context.Context) (any, error) {
		return admin.ValidateAlterBrokerConfigsState(ctx, ofBroker, 1)
	})
	ask("AlterBrokerConfigsState", "one", func(ctx context.Context) (any, error) {
		return admin.AlterBrokerConfigsState(ctx, ofBroker, 1)
	})
	ask("DescribeBrokerConfigs", "what was changed", func(ctx context.Context) (any, error) {
		described, err := admin.DescribeBrokerConfigs(ctx, 1)
		changed := map[string]*string{}
		for _, resource := range described {
			for _, config := range resource.Configs {
				if config.Key == "log.retention.ms" {
					changed[config.Source.String()] = config.Value
				}
			}
		}
		return changed, err
	})
	ask("ListConfigResources", "of groups", func(ctx context.Context) (any, error) { return admin.ListConfigResources(ctx, 32) })
}

func transactions(admin *kadm.Client) {
	askUntil(hasCoordinator, "FindTxnCoordinators", "of one", func(ctx context.Context) (any, error) { return admin.FindTxnCoordinators(ctx, "x"), nil })
	ask("FindShareCoordinators", "of a key that is none", func(ctx context.Context) (any, error) {
		return admin.FindShareCoordinators(ctx, "x"), nil
	})
	ask("DescribeTransactions", "of nobody", func(ctx context.Context) (any, error) { return admin.DescribeTransactions(ctx, "x") })
	ask("ListTransactions", "all", func(ctx context.Context) (any, error) { return admin.ListTransactions(ctx, nil, nil) })
	ask("ListTransactions", "of a state that is none", func(ctx context.Context) (any, error) {
		return admin.ListTransactions(ctx, nil, []string{"Asleep"})
	})
	ask("ListTransactionsByTxPattern", "by a pattern", func(ctx context.Context) (any, error) {
		return admin.ListTransactionsByTxPattern(ctx, nil, nil, "x.*")
	})
	ask("WriteTxnMarkers", "of a producer that is none", func(ctx context.Context) (any, error) {
		return admin.WriteTxnMarkers(ctx, kadm.TxnMarkers{ProducerID: 4_711, CoordinatorEpoch: 0, Topics: partition(topic)})
	})
}

func security(admin *kadm.Client) {
	acls := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Topics(topic).Allow("User:a").AllowHosts().Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	}
	ask("CreateACLs", "one", func(ctx context.Context) (any, error) { return admin.CreateACLs(ctx, acls()) })
	ask("DescribeACLs", "one", func(ctx context.Context) (any, error) { return admin.DescribeACLs(ctx, acls()) })
	ask("DeleteACLs", "one", func(ctx context.Context) (any, error) { return admin.DeleteACLs(ctx, acls()) })
	ask("CreateDelegationToken", "one", func(ctx context.Context) (any, error) {
		return admin.CreateDelegationToken(ctx, kadm.CreateDelegationToken{})
	})
	ask("RenewDelegationToken", "of nobody", func(ctx context.Context) (any, error) {
		return admin.RenewDelegationToken(ctx, []byte("x"), time.Hour)
	})
	ask("ExpireDelegationToken", "of nobody", func(ctx context.Context) (any, error) {
		return admin.ExpireDelegationToken(ctx, []byte("x"), time.Hour)
	})
	ask("DescribeDelegationTokens", "all", func(ctx context.Context) (any, error) { return admin.DescribeDelegationTokens(ctx) })
	ask("DescribeUserSCRAMs", "of nobody", func(ctx context.Context) (any, error) { return admin.DescribeUserSCRAMs(ctx, nobodys) })
	ask("AlterUserSCRAMs", "deletes nobody's", func(ctx context.Context) (any, error) {
		return admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: nobodys, Mechanism: kadm.ScramSha256}}, nil)
	})
	entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: text("of-kadm")}}
	quota := []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{{Key: "consumer_byte_rate", Value: 1_000}}}}
	ask("ValidateAlterClientQuotas", "one", func(ctx context.Context) (any, error) { return admin.ValidateAlterClientQuotas(ctx, quota) })
	ask("AlterClientQuotas", "one", func(ctx context.Context) (any, error) { return admin.AlterClientQuotas(ctx, quota) })
	askUntil(func(answer string) bool { return answer != "null" }, "DescribeClientQuotas", "one", func(ctx context.Context) (any, error) {
		components := []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchName: text("of-kadm"), MatchType: 0}}
		return admin.DescribeClientQuotas(ctx, true, components)
	})
}

func cluster(admin *kadm.Client) {
	ask("ListBrokers", "all", func(ctx context.Context) (any, error) {
		brokers, err := admin.ListBrokers(ctx)
		return brokers.NodeIDs(), err
	})
	ask("BrokerMetadata", "all", func(ctx context.Context) (any, error) {
		metadata, err := admin.BrokerMetadata(ctx)
		return []any{metadata.Brokers.NodeIDs(), len(metadata.Topics)}, err
	})
	ask("ApiVersions", "all", func(ctx context.Context) (any, error) {
		versions, err := admin.ApiVersions(ctx)
		return len(versions), err
	})
	ask("ElectLeaders", "preferred", func(ctx context.Context) (any, error) {
		return admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, partition(topic))
	})
	var moved kadm.AlterPartitionAssignmentsReq
	moved.Assign(topic, 0, []int32{1})
	moved.Assign(topic, 1, []int32{9})
	moved.CancelAssign(grown, 0)
	ask("AlterPartitionAssignments", "some", func(ctx context.Context) (any, error) {
		return admin.AlterPartitionAssignments(ctx, moved)
	})
	ask("ListPartitionReassignments", "of one", func(ctx context.Context) (any, error) {
		return admin.ListPartitionReassignments(ctx, partition(topic))
	})
	directories := kadm.AlterReplicaLogDirsReq{"/nowhere": partition(topic)}
	ask("AlterAllReplicaLogDirs", "to nowhere", func(ctx context.Context) (any, error) {
		return admin.AlterAllReplicaLogDirs(ctx, directories)
	})
	ask("AlterBrokerReplicaLogDirs", "to nowhere", func(ctx context.Context) (any, error) {
		return admin.AlterBrokerReplicaLogDirs(ctx, 1, directories)
	})
	ask("UpdateFeatures", "one that is none", func(ctx context.Context) (any, error) {
		return admin.UpdateFeatures(ctx, true, kadm.FeatureUpdate{Feature: "none", MaxVersionLevel: 1, UpgradeType: 1})
	})
}

func removals(admin *kadm.Client) {
	ask("DeleteTopics", "two", func(ctx context.Context) (any, error) { return admin.DeleteTopics(ctx, grown, nobodys) })
	ask("DeleteTopic", "one", func(ctx context.Context) (any, error) { return admin.DeleteTopic(ctx, topic) })
}
