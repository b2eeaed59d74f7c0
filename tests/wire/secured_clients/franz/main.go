// Commits a transaction and reads it in a group by franz-go: the argument is client_config("franz-go") in JSON.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type settings struct {
	Seeds []string
	TLS   *struct{ CA, Own string }
	SASL  *struct{ Mechanism, User, Password string }
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func options(config settings) []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(config.Seeds...)}
	if config.TLS != nil {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(must(os.ReadFile(config.TLS.CA)))
		secured := &tls.Config{RootCAs: trusted}
		if config.TLS.Own != "" {
			secured.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(config.TLS.Own, config.TLS.Own))}
		}
		options = append(options, kgo.DialTLSConfig(secured))
	}
	if config.SASL != nil {
		user := scram.Auth{User: config.SASL.User, Pass: config.SASL.Password}
		options = append(options, kgo.SASL(user.AsSha512Mechanism()))
	}
	return options
}

func main() {
	var config settings
	must(0, json.Unmarshal([]byte(os.Args[1]), &config))
	within, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	producer := must(kgo.NewClient(append(options(config), kgo.TransactionalID("checkout-1"))...))
	must(0, producer.BeginTransaction())
	must(0, producer.ProduceSync(within, &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr())
	must(0, producer.EndTransaction(within, kgo.TryCommit))
	producer.Close()
	reading := []kgo.Opt{kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted())}
	consumer := must(kgo.NewClient(append(options(config), reading...)...))
	fetches := consumer.PollFetches(within)
	must(0, fetches.Err())
	fmt.Println(string(fetches.Records()[0].Value))
	must(0, consumer.CommitUncommittedOffsets(within))
	consumer.Close()
}
