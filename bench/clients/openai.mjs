// The official OpenAI TypeScript SDK against a running node: chat completions and responses.
import OpenAI from 'openai';
import assert from 'node:assert/strict';

const client = new OpenAI({ baseURL: process.env.BASE_URL + '/v1', apiKey: process.env.API_KEY, maxRetries: 0 });
const messages = [{ role: 'system', content: 'You are brief.' }, { role: 'user', content: 'Say hello.' }];
const ask = { model: 'core-1.1-mini', max_tokens: 24, temperature: 0, messages };

// Plain, with reasoning.
const plain = await client.chat.completions.create(ask);
assert.match(plain.id, /^chatcmpl-/);
assert.equal(plain.object, 'chat.completion');
const [choice] = plain.choices;
assert.equal(choice.message.role, 'assistant');
assert.ok(choice.message.reasoning_content.length > 0, 'reasoning is on');
assert.ok(['stop', 'length'].includes(choice.finish_reason));
const { usage } = plain;
assert.ok(usage.completion_tokens > 0 && usage.completion_tokens <= 24);
assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
assert.ok(usage.completion_tokens_details.reasoning_tokens > 0);

// Streaming through the helper, with the usage chunk; the numbers are the same.
const runner = client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
const streamed = await runner.finalChatCompletion();
assert.equal(streamed.choices[0].finish_reason, choice.finish_reason);
assert.equal(streamed.usage.prompt_tokens, usage.prompt_tokens);
assert.equal(streamed.usage.completion_tokens, usage.completion_tokens);
let last;
for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) last = chunk;
assert.equal(last.choices[0].finish_reason, choice.finish_reason, 'without include_usage the finish chunk is last');

// Thinking off; tools offered and a tool's result replayed.
const tools = [{ type: 'function', function: { name: 'weather', description: 'The weather of a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }];
const quiet = await client.chat.completions.create({ ...ask, reasoning_effort: 'none', tools, tool_choice: 'auto', messages: [
  ...messages,
  { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } }] },
  { role: 'tool', tool_call_id: 'call_1', content: 'Sunny.' }] });
assert.equal(quiet.usage.completion_tokens_details.reasoning_tokens, 0);

// Responses, plain and streaming.
const response = await client.responses.create({ model: ask.model, input: 'Say hello.', max_output_tokens: 24, temperature: 0 });
assert.match(response.id, /^resp_/);
assert.equal(response.store, false);
assert.ok(['completed', 'incomplete'].includes(response.status));
assert.ok(response.output.some((item) => item.type === 'reasoning'));
const kinds = [];
let final;
for await (const event of await client.responses.create({ model: ask.model, instructions: 'You are brief.', input: [{ role: 'user', content: 'Say hello.' }],
  max_output_tokens: 24, temperature: 0, stream: true })) {
  assert.equal(event.sequence_number, kinds.length);
  kinds.push(event.type);
  final = event;
}
assert.deepEqual(kinds.slice(0, 2), ['response.created', 'response.in_progress']);
assert.ok(['response.completed', 'response.incomplete'].includes(final.type));
assert.equal(final.response.usage.input_tokens, usage.prompt_tokens, 'one conversation, one number');

// Typed errors.
const fails = async (promise, type) => {
  const err = await promise.then(() => assert.fail('no error'), (e) => e);
  assert.ok(err instanceof type, `${err} is no ${type.name}`);
  return err;
};
const stranger = new OpenAI({ baseURL: process.env.BASE_URL + '/v1', apiKey: 'sk-no', maxRetries: 0 });
assert.equal((await fails(stranger.chat.completions.create(ask), OpenAI.AuthenticationError)).code, 'unauthorized');
assert.equal((await fails(client.chat.completions.create({ ...ask, model: 'nobody' }), OpenAI.BadRequestError)).code, 'model_not_found');
const bad = await fails(client.chat.completions.create({ ...ask, n: 2 }), OpenAI.BadRequestError);
assert.equal(bad.code, 'invalid_request');
assert.ok(bad.requestID, 'errors carry the request id');
for (const refused of [{ store: true }, { previous_response_id: 'resp_1' }, { background: true }, { max_output_tokens: 32769 }])
  await fails(client.responses.create({ model: ask.model, input: 'hi', ...refused }), OpenAI.BadRequestError);

// Aborting a stream is quiet; the model list is there.
const aborted = client.chat.completions.stream({ ...ask, max_tokens: 100000 });
aborted.on('chunk', () => aborted.abort());
await fails(aborted.finalChatCompletion(), OpenAI.APIUserAbortError);
const ids = [];
for await (const m of client.models.list()) ids.push(m.id);
assert.deepEqual(ids.sort(), ['core-1.1', 'core-1.1-mini']);
console.log('passed');
