// Calls of the public JavaScript clients, unchanged, against a running service: node clients.js URL KEY REQUESTS.
// REQUESTS is JSON: a rank request and a multi-slot one as applications send them. A failed check ends with status 1.
const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { PersonalizerClient } = require("@azure/cognitiveservices-personalizer");
const { ApiKeyCredentials } = require("@azure/ms-rest-js");
const createClient = require("@azure-rest/ai-personalizer").default;

const [url, key, requests] = process.argv.slice(2);
const { rank, slots, multiSlot, configuration } = JSON.parse(requests);

const fresh = (request) => ({ ...request, eventId: randomUUID() });

async function firstClient() {
  const credentials = new ApiKeyCredentials({ inHeader: { "Ocp-Apim-Subscription-Key": key } });
  const client = new PersonalizerClient(credentials, url);
  const request = { ...fresh(rank), deferActivation: true };
  const answer = await client.rank(request);
  assert.equal(answer.eventId, request.eventId);
  assert.equal(answer.ranking.length, rank.actions.length);
  assert.ok(rank.actions.some((action) => action.id === answer.rewardActionId));
  await client.events.reward(request.eventId, { value: 0.5 });
  await client.events.activate(request.eventId);
  await client.events.reward("123456789", { value: 1 });
  await assert.rejects(client.rank({ ...fresh(rank), actions: [] }), (error) => error.statusCode === 400);
}

async function restClient() {
  const client = createClient(url, { key }, { allowInsecureConnection: true });
  const send = async (path, method, status, options = {}) => {
    const answer = await client.path(...path)[method](options);
    assert.equal(answer.status, String(status), `${method} ${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const request = fresh(rank);
  const ranked = await send(["/rank"], "post", 201, { body: request });
  assert.equal(ranked.eventId, request.eventId);
  await send(["/events/{eventId}/reward", request.eventId], "post", 204, { body: { value: 1 } });
  await send(["/events/{eventId}/activate", request.eventId], "post", 204);

  assert.equal((await send(["/multislot/rank"], "post", 400, { body: fresh(slots) })).error.code, "InvalidMultiSlotApiAccess");
  await send(["/configurations/policy"], "put", 200, { body: multiSlot });
  const page = fresh(slots);
  const filled = await send(["/multislot/rank"], "post", 201, { body: page });
  assert.equal(filled.slots.length, slots.slots.length);
  const reward = [{ slotId: slots.slots[0].id, value: 1 }];
  await send(["/multislot/events/{eventId}/reward", page.eventId], "post", 204, { body: { reward } });
  await send(["/multislot/events/{eventId}/activate", page.eventId], "post", 204);
  await send(["/configurations/policy"], "delete", 200);
  await send(["/configurations/policy"], "get", 200);

  const changed = await send(["/configurations/service"], "put", 200, { body: configuration });
  assert.deepEqual(await send(["/configurations/service"], "get", 200), changed);
  await send(["/model/properties"], "get", 200);
  await send(["/model"], "get", 200);
  await send(["/model"], "delete", 204);
  await send(["/logs/properties"], "get", 200);
  await send(["/evaluations"], "get", 200);
  await send(["/evaluations/{evaluationId}", "none"], "get", 404);
}

async function main() {
  await firstClient();
  await restClient();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
