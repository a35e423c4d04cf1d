// The official TypeScript SDK against a running node: what an application does.
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import assert from 'node:assert/strict';

const client = new Anthropic({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0 });
const ask = { model: 'core-1.1-mini', max_tokens: 24, temperature: 0, messages: [{ role: 'user', content: 'Say hello.' }] };

// Streaming through the helper, which throws unless the stream is whole.
const stream = client.messages.stream(ask);
const kinds = new Set();
stream.on('streamEvent', (e) => kinds.add(e.type));
const streamed = await stream.finalMessage();
for (const k of ['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop'])
  assert(kinds.has(k), `no ${k}`);
assert.equal(streamed.content[0].type, 'thinking');
assert.ok(streamed.content[0].signature, 'thinking is signed');
assert.ok(['end_turn', 'max_tokens'].includes(streamed.stop_reason));
assert.ok(streamed.usage.output_tokens > 0 && streamed.usage.output_tokens <= 24);

// Not streaming, thinking off: text only.
const plain = await client.messages.create({ ...ask, thinking: { type: 'disabled' } });
assert.ok(plain.content.every((b) => b.type === 'text'));
assert.match(plain.id, /^msg_/);

// Counting says what a request reports as input.
const count = await client.messages.countTokens({ model: ask.model, messages: ask.messages });
assert.equal(count.input_tokens, streamed.usage.input_tokens + streamed.usage.cache_read_input_tokens);

// A replayed turn with its signed thinking is accepted.
await client.messages.create({ ...ask, messages: [...ask.messages,
  { role: 'assistant', content: streamed.content }, { role: 'user', content: 'And again.' }] });

// Models list and typed errors.
const ids = [];
for await (const m of client.models.list()) ids.push(m.id);
assert.deepEqual(ids.sort(), ['core-1.1', 'core-1.1-mini']);
assert.equal((await client.models.retrieve('core-1.1')).id, 'core-1.1');

const fails = async (promise, type) => {
  const err = await promise.then(() => assert.fail('no error'), (e) => e);
  assert.ok(err instanceof type, `${err} is no ${type.name}`);
  return err;
};
await fails(new Anthropic({ baseURL: process.env.BASE_URL, apiKey: 'sk-no', maxRetries: 0 }).messages.create(ask), Anthropic.AuthenticationError);
await fails(client.messages.create({ ...ask, model: 'nobody' }), Anthropic.NotFoundError);
const bad = await fails(client.messages.create({ ...ask, temperature: -1 }), Anthropic.BadRequestError);
assert.equal(bad.error.error.type, 'invalid_request_error');
assert.ok(bad.requestID, 'errors carry the request id');

// Aborting a stream is quiet.
const aborted = client.messages.stream({ ...ask, max_tokens: 100000 });
aborted.on('streamEvent', () => aborted.abort());
await fails(aborted.finalMessage(), Anthropic.APIUserAbortError);

// A tool runner sends a thread of its own accord, and all messages once it knows that none is kept.
const recorded = new Anthropic({ baseURL: process.env.RECORDED_URL, apiKey: process.env.RECORDED_KEY, maxRetries: 0 });
const tool = (name, parameter, run) => betaTool({ name, description: name, run,
  inputSchema: { type: 'object', properties: { [parameter]: { type: 'string' } }, required: [parameter] } });
const turns = [];
for await (const turn of recorded.beta.messages.toolRunner({ model: 'core-1.1', max_tokens: 500,
  messages: [{ role: 'user', content: 'What is the weather where Anna is? Use the tools.' }],
  tools: [tool('find_person', 'name', ({ name }) => `${name} is in Paris.`),
    tool('get_weather', 'city', ({ city }) => ({ Paris: '21 degrees, sunny' })[city])],
})) turns.push(turn);
assert.deepEqual(turns.flatMap((t) => t.content).filter((b) => b.type === 'tool_use').map((b) => b.name), ['find_person', 'get_weather']);
assert.equal(turns.at(-1).content.at(-1).text, 'It is 21 degrees and sunny in Paris.');
const read = turns.map((t) => t.usage.input_tokens + t.usage.cache_read_input_tokens);
assert.ok(read[0] < read[1] && read[1] < read[2], `${read} tokens read`);
const thread = recorded.beta.messages.thread({ model: 'core-1.1', max_tokens: 500 });
const err = await fails(thread.send({ role: 'user', content: 'Say hello.' }), Anthropic.BadRequestError);
assert.equal(err.errorCode, 'thread_unsupported_request');
console.log('passed');
