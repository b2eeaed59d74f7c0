// Commits a transaction and reads it in a group by kafkajs: the argument is client_config("kafkajs") in JSON.
const { Kafka, logLevel } = require("kafkajs");

async function main() {
  const config = JSON.parse(process.argv[2]);
  if (config.sasl?.token) config.sasl.oauthBearerProvider = async () => ({ value: config.sasl.token });
  const kafka = new Kafka({ ...config, logLevel: logLevel.ERROR });
  const producer = kafka.producer({ transactionalId: "checkout-1", maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  const transaction = await producer.transaction();
  await transaction.send({ topic: "orders", messages: [{ value: "paid" }] });
  await transaction.commit();
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: "billing", readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topics: ["orders"], fromBeginning: true });
  const first = await new Promise((resolve) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) });
  });
  await consumer.disconnect();
  console.log(first);
}

main();
