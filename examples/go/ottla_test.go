package ottla

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func client(t *testing.T, bootstrap string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	addresses := strings.Split(bootstrap, ",")
	opened, err := kgo.NewClient(append(options, kgo.SeedBrokers(addresses...), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func write(t *testing.T, producer *kgo.Client, value string, end kgo.TransactionEndTry) {
	t.Helper()
	ctx := deadline(t)
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := producer.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := producer.EndTransaction(ctx, end); err != nil {
		t.Fatal(err)
	}
}

// expect reads the topic "orders" until it has as many committed records as there are values, and compares them.
func expect(t *testing.T, bootstrap string, values ...string) {
	t.Helper()
	consumer := client(t, bootstrap, kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	var read []string
	for len(read) < len(values) {
		fetches := consumer.PollFetches(deadline(t))
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, record := range fetches.Records() {
			read = append(read, string(record.Value))
		}
	}
	for index, value := range values {
		if read[index] != value {
			t.Fatalf("read %q, not %q", read, values)
		}
	}
}

func TestOnlyCommittedOrdersAreRead(t *testing.T) {
	broker := Start(t)
	producer := client(t, broker.Bootstrap, kgo.TransactionalID("orders"), kgo.DefaultProduceTopic("orders"))
	write(t, producer, "cancelled", kgo.TryAbort)
	write(t, producer, "paid", kgo.TryCommit)
	expect(t, broker.Bootstrap, "paid")
}

func TestProducerSurvivesALeaderChangeAndALostResponse(t *testing.T) {
	t.Parallel()
	broker := Start(t)
	moved := broker.Faults.Error("NOT_LEADER_OR_FOLLOWER", Fault{API: "Produce", Topic: "orders", Times: 2})
	lost := broker.Faults.Cut("after", Fault{API: "Produce", Topic: "orders"})
	broker.Faults.Delay(50*time.Millisecond, Fault{API: "Fetch", Times: Always})
	producer := client(t, broker.Bootstrap, kgo.DefaultProduceTopic("orders"))
	if err := producer.ProduceSync(deadline(t), kgo.StringRecord("paid")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	moved.Wait(2)
	lost.Wait(1)
	expect(t, broker.Bootstrap, "paid")
}

func TestTransactionTimesOutWhenTheClockIsAdvanced(t *testing.T) {
	t.Parallel()
	broker := Start(t, "--clock", "manual")
	producer := client(t, broker.Bootstrap, kgo.TransactionalID("slow"), kgo.DefaultProduceTopic("orders"),
		kgo.TransactionTimeout(30*time.Second))
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := producer.ProduceSync(deadline(t), kgo.StringRecord("late")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	broker.Clock.Advance(61 * time.Second)
	if err := producer.EndTransaction(deadline(t), kgo.TryCommit); err == nil {
		t.Fatal("the commit succeeded after the transaction's timeout")
	}
}

func TestEachSubtestHasAnEmptyBroker(t *testing.T) {
	shared := Start(t)
	for _, value := range []string{"first", "second"} {
		t.Run(value, func(t *testing.T) {
			broker := shared.ForTest(t)
			producer := client(t, broker.Bootstrap, kgo.DefaultProduceTopic("orders"))
			if err := producer.ProduceSync(deadline(t), kgo.StringRecord(value)).FirstErr(); err != nil {
				t.Fatal(err)
			}
			expect(t, broker.Bootstrap, value)
		})
	}
}

func TestProducerFollowsTheLeader(t *testing.T) {
	t.Parallel()
	cluster := StartCluster(t, 3)
	cluster.Command("topic", "create", "orders", "--partitions", "1", "--replication-factor", "3")
	producer := client(t, cluster.Bootstrap, kgo.DefaultProduceTopic("orders"))
	produce := func(value string) {
		t.Helper()
		if err := producer.ProduceSync(deadline(t), kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce("before")
	next := cluster.Leader("orders", 0)%3 + 1
	cluster.MoveLeader("orders", 0, next)
	produce("moved")
	cluster.Kill(next)
	produce("killed")
	cluster.Restart(next)
	expect(t, cluster.Bootstrap, "before", "moved", "killed")
}

// This test fails, to show its report: OTTLA_SHOW_FAILURE=1 go test -run TestReport ./...
func TestReportOfAFailedTest(t *testing.T) {
	if os.Getenv("OTTLA_SHOW_FAILURE") == "" {
		t.Skip("set OTTLA_SHOW_FAILURE=1 to see the report of a failed test")
	}
	broker := Start(t)
	producer := client(t, broker.Bootstrap, kgo.TransactionalID("checkout-1"), kgo.DefaultProduceTopic("orders"))
	write(t, producer, "paid", kgo.TryCommit)
	expect(t, broker.Bootstrap, "shipped")
}
