// Copies records exactly once by franz-go: BOOTSTRAP GROUP_PROTOCOL GROUP TRANSACTIONAL_ID INPUT OUTPUT.
// It prints errors, and exits when its standard input is closed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	records            = 20
	pause              = 20 * time.Millisecond
	transactionTimeout = 4 * time.Second
)

func say(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
}

func session(arguments []string) (*kgo.GroupTransactSession, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(arguments[0]),
		kgo.ConsumerGroup(arguments[2]),
		kgo.TransactionalID(arguments[3]),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.ConsumeTopics(arguments[4]),
		kgo.DefaultProduceTopic(arguments[5]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}
	if arguments[1] == "consumer" {
		options = append(options, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(300*time.Millisecond))
	}
	return kgo.NewGroupTransactSession(options...)
}

func polled(s *kgo.GroupTransactSession) []*kgo.Record {
	within, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	return s.PollRecords(within, records).Records()
}

func copied(s *kgo.GroupTransactSession, batch []*kgo.Record) error {
	if err := s.Begin(); err != nil {
		return err
	}
	sent := make([]*kgo.Record, 0, len(batch))
	for _, record := range batch {
		sent = append(sent, &kgo.Record{Key: record.Key, Value: record.Value, Partition: record.Partition})
	}
	failure := s.ProduceSync(context.Background(), sent...).FirstErr()
	time.Sleep(pause)
	committed, err := s.End(context.Background(), kgo.TransactionEndTry(failure == nil))
	if err == nil && !committed {
		say("failed %v", failure)
	}
	return err
}

func main() {
	arguments := os.Args[1:]
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for {
		s, err := session(arguments)
		if err != nil {
			say("refused %v", err)
			os.Exit(1)
		}
		for err == nil {
			select {
			case <-ended:
				s.Close()
				say("closed")
				return
			default:
			}
			if batch := polled(s); len(batch) > 0 {
				err = copied(s, batch)
			}
		}
		// franz-go documents that a session must not be used after an error.
		say("failed %v", err)
		s.Close()
	}
}
