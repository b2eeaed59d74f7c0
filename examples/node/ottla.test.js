"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");
const { Kafka, logLevel } = require("kafkajs");
const { Broker, Cluster } = require("./ottla");

let broker;
before(async () => {
  broker = await Broker.start();
});
after(() => broker.stop());

const kafka = ({ bootstrap }) =>
  new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100, retries: 10 } });

async function produce(on, ...values) {
  const producer = kafka(on).producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const value of values) {
    await producer.send({ topic: "orders", messages: [{ value }] });
  }
  await producer.disconnect();
}

async function write(on, transactionalId, value, end) {
  const producer = kafka(on).producer({ transactionalId, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  const transaction = await producer.transaction();
  await transaction.send({ topic: "orders", messages: [{ value }] });
  await transaction[end]();
  await producer.disconnect();
}

/** Resolves to the first committed records of the topic "orders". */
async function committed(on, count) {
  const consumer = kafka(on).consumer({ groupId: "readers", readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topics: ["orders"], fromBeginning: true });
  const values = [];
  await new Promise((resolve) => {
    const eachMessage = async ({ message }) => values.push(message.value.toString()) >= count && resolve();
    consumer.run({ eachMessage });
  });
  await consumer.disconnect();
  return values;
}

test("only committed orders are read", () =>
  broker.forTest(async () => {
    await write(broker, "orders", "cancelled", "abort");
    await write(broker, "orders", "paid", "commit");
    assert.deepEqual(await committed(broker, 1), ["paid"]);
  }));

test("a producer survives a leader change and a lost response", () =>
  broker.forTest(async () => {
    const moved = await broker.faults.error("NOT_LEADER_OR_FOLLOWER", { api: "Produce", topic: "orders", times: 2 });
    const lost = await broker.faults.cut("after", { api: "Produce", topic: "orders" });
    await broker.faults.delay(50, { api: "Fetch", times: null });
    await produce(broker, "paid");
    await moved.wait(2);
    await lost.wait();
    assert.deepEqual(await committed(broker, 1), ["paid"]);
  }));

test("a transaction times out when the clock is advanced", async (t) => {
  const timed = await Broker.start({ clock: "manual" });
  t.after(() => timed.stop());
  await timed.forTest(async () => {
    const settings = { transactionalId: "slow", transactionTimeout: 30_000, maxInFlightRequests: 1, idempotent: true };
    const producer = kafka(timed).producer(settings);
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic: "orders", messages: [{ value: "late" }] });
    await timed.clock.advance(61_000);
    await assert.rejects(transaction.commit());
    await producer.disconnect();
  });
});

test("a reset removes what earlier tests have written", () =>
  broker.forTest(async () => {
    await produce(broker, "first");
    await broker.reset();
    await produce(broker, "second");
    assert.deepEqual(await committed(broker, 1), ["second"]);
  }));

test("a producer follows the leader", async (t) => {
  const cluster = await Cluster.start({ brokers: 3 });
  t.after(() => cluster.stop());
  await cluster.forTest(async () => {
    await cluster.command("topic", "create", "orders", "--partitions", "1", "--replication-factor", "3");
    await produce(cluster, "before");
    const next = ((await cluster.leader("orders")) % 3) + 1;
    await cluster.moveLeader("orders", 0, next);
    await produce(cluster, "moved");
    await cluster.kill(next);
    await produce(cluster, "killed");
    await cluster.restart(next);
    assert.deepEqual(await committed(cluster, 3), ["before", "moved", "killed"]);
  });
});

// This test fails, to show its report: OTTLA_SHOW_FAILURE=1 npm test
test("the report of a failed test has the history of its transactions", { skip: !process.env.OTTLA_SHOW_FAILURE }, () =>
  broker.forTest(async () => {
    await write(broker, "checkout-1", "paid", "commit");
    assert.deepEqual(await committed(broker, 1), ["shipped"]);
  }));
