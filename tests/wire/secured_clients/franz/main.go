// Commits a transaction and reads it in a group by franz-go: the argument is client_config("franz-go") in JSON. With a further argument
// "lines" it sends each line of its input as a record, and prints the line when the broker has acknowledged the record.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type settings struct {
	Seeds []string
	TLS   *struct{ CA, Own string }
	SASL  *struct {
		Mechanism, User, Password, Token string
		IsToken                          bool
	}
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
		user := scram.Auth{User: config.SASL.User, Pass: config.SASL.Password, IsToken: config.SASL.IsToken}
		switch config.SASL.Mechanism {
		case "SCRAM-SHA-512":
			options = append(options, kgo.SASL(user.AsSha512Mechanism()))
		case "SCRAM-SHA-256":
			options = append(options, kgo.SASL(user.AsSha256Mechanism()))
		case "PLAIN":
			options = append(options, kgo.SASL(plain.Auth{User: user.User, Pass: user.Pass}.AsMechanism()))
		case "OAUTHBEARER":
			options = append(options, kgo.SASL(oauth.Auth{Token: config.SASL.Token}.AsMechanism()))
		default:
			panic(config.SASL.Mechanism)
		}
	}
	return options
}

func sendLines(within context.Context, config settings) {
	producer := must(kgo.NewClient(options(config)...))
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		must(0, producer.ProduceSync(within, &kgo.Record{Topic: "orders", Value: []byte(input.Text())}).FirstErr())
		fmt.Println(input.Text())
	}
	producer.Close()
}

func main() {
	var config settings
	must(0, json.Unmarshal([]byte(os.Args[1]), &config))
	within, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if len(os.Args) > 2 {
		sendLines(within, config)
		return
	}
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
