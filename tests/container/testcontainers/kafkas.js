// Starts Testcontainers' Kafka containers on the given image, prints their addresses, and stops each when a line is read.
const { once } = require("node:events");
const { readFileSync } = require("node:fs");
const { createInterface } = require("node:readline");
const { KafkaContainer } = require("@testcontainers/kafka");

async function main([image]) {
  const lines = createInterface({ input: process.stdin });
  // For images before 8.0 the module supports KRaft and ZooKeeper. For images before 7.4 it writes a longer script.
  for (const [tag, kraft] of [["8.0.0", true], ["7.3.0", true], ["7.3.0", false]]) {
    const container = new KafkaContainer(`${image}:${tag}`);
    const started = await (kraft ? container.withKraft() : container).start();
    console.log(`${kraft ? "kraft" : "zookeeper"}-${tag} ${started.getHost()}:${started.getMappedPort(9093)}`);
    await once(lines, "line");
    await started.stop();
  }
  // The user is created by kafka-storage format --add-scram, which the module appends to a script of the image.
  const store = { content: readFileSync(process.env.KEY_STORE), passphrase: process.env.KEY_STORE_PASSWORD };
  const sasl = { mechanism: "SCRAM-SHA-512", user: { name: "app-user", password: process.env.USER_PASSWORD } };
  const secured = await new KafkaContainer(`${image}:8.0.0`)
    .withSaslSslListener({ port: 9096, sasl, keystore: store })
    .start();
  console.log(`secured-8.0.0 ${secured.getHost()}:${secured.getMappedPort(9096)}`);
  await once(lines, "line");
  await secured.stop();
  lines.close();
}

main(process.argv.slice(2));
