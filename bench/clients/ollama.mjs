// The official Ollama client for JavaScript against a running node whose module ollama is enabled.
import assert from 'node:assert/strict';
import { Ollama } from 'ollama';

const connect = (host, key) => new Ollama({ host, headers: { Authorization: `Bearer ${key}` } });
const client = connect(process.env.BASE_URL, process.env.API_KEY);
const options = { num_predict: 24, temperature: 0 };
const ask = { model: 'core-1.1', messages: [{ role: 'user', content: 'Say hello.' }], options };
const gather = async stream => { const all = []; for await (const part of await stream) all.push(part); return all; };

// Plain, streaming, and without thinking.
const plain = await client.chat(ask);
assert.ok(plain.done && ['stop', 'length'].includes(plain.done_reason) && plain.message.thinking);
assert.ok(plain.eval_count <= 24 && plain.prompt_eval_count > 0 && plain.total_duration > 0);
const parts = await gather(client.chat({ ...ask, stream: true }));
assert.ok(parts.length > 2 && parts.findIndex(p => p.done) === parts.length - 1);
assert.equal(parts.map(p => p.message.thinking ?? '').join(''), plain.message.thinking);
assert.equal(parts.map(p => p.message.content ?? '').join(''), plain.message.content);
assert.equal(parts.at(-1).eval_count, plain.eval_count);
assert.equal(parts.at(-1).prompt_eval_count, plain.prompt_eval_count);
assert.ok(!(await client.chat({ ...ask, think: false })).message.thinking);

// A prompt instead of messages, and a stream that the client ends.
const generated = await client.generate({ model: 'core-1.1:latest', prompt: 'Say hello.', options });
assert.equal(generated.thinking, plain.message.thinking);
const pieces = await gather(client.generate({ model: 'core-1.1', prompt: 'Say hello.', options, stream: true }));
assert.equal(pieces.map(p => p.response).join(''), generated.response);
const endless = await client.generate({ model: 'core-1.1', prompt: 'Count.', stream: true });
await assert.rejects(gather(Promise.resolve((async function* () {
  for await (const part of endless) { endless.abort(); yield part; }
})())), { name: 'AbortError' });

// JSON of a schema, the listing, and one model.
const shape = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const answer = await client.chat({ ...ask, think: false, options: { temperature: 0, num_predict: 200 }, format: shape });
assert.deepEqual(Object.keys(JSON.parse(answer.message.content)), ['city']);
assert.deepEqual((await client.list()).models.map(m => m.model).sort(), ['core-1.1', 'core-1.1-mini']);
assert.deepEqual((await client.ps()).models.map(m => m.model).sort(), ['core-1.1', 'core-1.1-mini']);
assert.ok((await client.show({ model: 'core-1.1' })).capabilities.includes('tools'));
assert.ok((await client.version()).version);

// Errors have a status, and say which field it is.
const fails = (status, says, call) => assert.rejects(call, error => error.status_code === status && error.message.includes(says));
await fails(401, 'key', connect(process.env.BASE_URL, 'sk-no').chat(ask));
await fails(404, 'nobody', client.chat({ ...ask, model: 'nobody' }));
await fails(404, 'nobody', client.show({ model: 'nobody' }));
await fails(400, 'options.temperature', client.chat({ ...ask, options: { temperature: -1 } }));
await fails(400, 'images', client.generate({ model: 'core-1.1', prompt: 'What is it?', images: [new Uint8Array([1])] }));

// A model that plays answers: calls of the model's, and what their results lead to.
const recorded = connect(process.env.RECORDED_URL, process.env.RECORDED_KEY);
const tools = [{ type: 'function', function: { name: 'get_weather', description: 'The weather of a city.', parameters: shape } }];
const temperatures = { Paris: '21 degrees', Rome: '25 degrees' };
for (const stream of [false, true]) {
  const messages = [{ role: 'user', content: 'How is the weather in Paris and in Rome?' }];
  const asked = recorded.chat({ model: 'core-1.1', messages, tools, stream });
  const calls = (stream ? await gather(asked) : [await asked]).flatMap(p => p.message.tool_calls ?? []);
  assert.deepEqual(calls.map(c => [c.function.name, c.function.arguments.city]), [['get_weather', 'Paris'], ['get_weather', 'Rome']]);
  messages.push({ role: 'assistant', content: '', tool_calls: calls });
  for (const c of calls) messages.push({ role: 'tool', tool_name: c.function.name, content: temperatures[c.function.arguments.city] });
  assert.ok((await recorded.chat({ model: 'core-1.1', messages, tools })).message.content.startsWith('Rome is warmer'));
}
console.log('passed');
