// Starts Testcontainers' Kafka container on the given image, prints its brokers, and stops it when a line is read.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
)

func main() {
	ctx := context.Background()
	container, err := kafka.Run(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	brokers, err := container.Brokers(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("kraft", brokers[0])
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		log.Fatal(err)
	}
	if err := testcontainers.TerminateContainer(container); err != nil {
		log.Fatal(err)
	}
}
