// Registers schemas of all three formats with franz-go's client of schema registries, and reads values with its serde.
//
// The argument is the registry's URL, with user and password if it needs them. Prints one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

type order struct {
	ID int `json:"id"`
}

func main() {
	where, err := url.Parse(os.Args[1])
	check(err)
	options := []sr.ClientOpt{}
	if where.User != nil {
		password, _ := where.User.Password()
		options = append(options, sr.BasicAuth(where.User.Username(), password))
		where.User = nil
	}
	// The client's own limit of 5 s is too short for a busy machine.
	options = append(options, sr.URLs(where.String()), sr.HTTPClient(&http.Client{Timeout: 60 * time.Second}))
	client, err := sr.NewClient(options...)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()

	schemas := map[string]sr.Schema{
		"go-avro":  {Schema: `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}`},
		"go-json":  {Schema: `{"type":"object","properties":{"id":{"type":"integer"}}}`, Type: sr.TypeJSON},
		"go-proto": {Schema: "syntax = \"proto3\";\nmessage Order { int64 id = 1; }\n", Type: sr.TypeProtobuf},
	}
	found := map[string]any{}
	for subject, schema := range schemas {
		created, err := client.CreateSchema(ctx, subject, schema)
		check(err)
		looked, err := client.LookupSchema(ctx, subject, schema)
		check(err)
		text, err := client.SchemaByID(ctx, created.ID)
		check(err)
		compatible, err := client.CheckCompatibility(ctx, subject, -1, schema)
		check(err)
		found[subject] = []any{created.Version, looked.ID == created.ID, text.Type.String(), compatible.Is}
	}
	avro, err := client.SchemaByVersion(ctx, "go-avro", -1)
	check(err)
	var serde sr.Serde
	serde.Register(avro.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	data := serde.MustEncode(order{ID: 7})
	var read order
	check(serde.Decode(data, &read))
	found["read"] = read.ID

	level := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "go-avro")[0]
	check(level.Err)
	found["level"] = client.Compatibility(ctx, "go-avro")[0].Level.String()
	mode := client.SetMode(ctx, sr.ModeReadOnly, "go-avro")[0]
	check(mode.Err)
	_, refused := client.CreateSchema(ctx, "go-avro", sr.Schema{Schema: `"int"`})
	found["refused"] = refused != nil
	client.ResetMode(ctx, "go-avro")
	soft, err := client.DeleteSubject(ctx, "go-proto", sr.SoftDelete)
	check(err)
	hard, err := client.DeleteSubject(ctx, "go-proto", sr.HardDelete)
	check(err)
	found["deleted"] = []any{soft, hard}
	line, err := json.Marshal(found)
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
