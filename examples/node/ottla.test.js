"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");
const { Kafka, logLevel } = require("kafkajs");
const { start } = require("./ottla");

let ottla;
before(async () => {
  ottla = await start();
});
after(() => ottla.stop());

test("only committed orders are read", async () => {
  const kafka = new Kafka({ brokers: [ottla.bootstrap], logLevel: logLevel.ERROR });
  const producer = kafka.producer({ transactionalId: "orders", maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  for (const [value, end] of [["cancelled", "abort"], ["paid", "commit"]]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic: "orders", messages: [{ value }] });
    await transaction[end]();
  }
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: "readers", readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topics: ["orders"], fromBeginning: true });
  const first = await new Promise((resolve) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) });
  });
  await consumer.disconnect();
  assert.equal(first, "paid");
});
