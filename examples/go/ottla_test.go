package ottla

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func write(ctx context.Context, t *testing.T, client *kgo.Client, value string, end kgo.TransactionEndTry) {
	t.Helper()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(ctx, end); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyCommittedOrdersAreRead(t *testing.T) {
	bootstrap := Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID("orders"), kgo.DefaultProduceTopic("orders"), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	write(ctx, t, producer, "cancelled", kgo.TryAbort)
	write(ctx, t, producer, "paid", kgo.TryCommit)

	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	fetches := consumer.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	for _, record := range fetches.Records() {
		if string(record.Value) != "paid" {
			t.Fatalf("read %q", record.Value)
		}
	}
}
