// Commits a transaction and reads it by sarama: the argument is client_config("sarama") in JSON.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type settings struct {
	Seeds []string
	TLS   *struct{ CA, Own string }
	SASL  *struct{ Mechanism, User, Password, Token string }
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// scramClient is the SCRAM that sarama leaves to its users.
type scramClient struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (s *scramClient) Begin(user, password, authzID string) error {
	s.ClientConversation = must(s.hash.NewClient(user, password, authzID)).NewConversation()
	return nil
}

var hashes = map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}

// token is the token that sarama sends by OAUTHBEARER.
type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

func configured(given settings) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	if given.TLS != nil {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(must(os.ReadFile(given.TLS.CA)))
		config.Net.TLS.Enable, config.Net.TLS.Config = true, &tls.Config{RootCAs: trusted}
		if given.TLS.Own != "" {
			config.Net.TLS.Config.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(given.TLS.Own, given.TLS.Own))}
		}
	}
	if given.SASL != nil {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(given.SASL.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = given.SASL.User, given.SASL.Password
		hash := hashes[given.SASL.Mechanism]
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: hash} }
		config.Net.SASL.TokenProvider = token(given.SASL.Token)
	}
	return config
}

// printing prints the first record of a group.
type printing struct{ done context.CancelFunc }

func (printing) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (printing) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (p printing) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		fmt.Println(string(message.Value))
		session.MarkMessage(message, "")
		p.done()
		return nil
	}
	return nil
}

func main() {
	var given settings
	must(0, json.Unmarshal([]byte(os.Args[1]), &given))
	producing := configured(given)
	producing.Producer.Transaction.ID, producing.Producer.Idempotent, producing.Net.MaxOpenRequests = "checkout-1", true, 1
	producing.Producer.RequiredAcks, producing.Producer.Return.Successes = sarama.WaitForAll, true
	producer := must(sarama.NewSyncProducer(given.Seeds, producing))
	must(0, producer.BeginTxn())
	_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: "orders", Value: sarama.StringEncoder("paid")})
	must(0, err)
	must(0, producer.CommitTxn())
	must(0, producer.Close())
	reading := configured(given)
	reading.Consumer.Offsets.Initial, reading.Consumer.IsolationLevel = sarama.OffsetOldest, sarama.ReadCommitted
	within, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	group := must(sarama.NewConsumerGroup(given.Seeds, "billing", reading))
	for within.Err() == nil {
		if err := group.Consume(within, []string{"orders"}, printing{cancel}); err != nil {
			panic(err)
		}
	}
	must(0, group.Close())
}
