// Starts Testcontainers' Kafka containers on the given image, prints their addresses, and stops each when a line is read.
const { once } = require("node:events");
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
  lines.close();
}

main(process.argv.slice(2));
