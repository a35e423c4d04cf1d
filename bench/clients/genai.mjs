// Google's Gen AI SDK for JavaScript against a running node on which the module generate-content is enabled.
import { FunctionCallingConfigMode, GoogleGenAI, Type } from '@google/genai';
import assert from 'node:assert/strict';

const connect = apiKey => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: process.env.BASE_URL + '/generate-content' } });
const client = connect(process.env.API_KEY);
const model = 'core-1.1', greedy = { temperature: 0, maxOutputTokens: 400 };
const ask = (contents, config) => client.models.generateContent({ model, contents, config: { ...greedy, ...config } });

// Plain, streaming, and with the thinking shown.
const plain = await ask('Say hello.');
assert.ok(plain.text && plain.responseId);
assert.equal(plain.candidates[0].finishReason, 'STOP');
const { usageMetadata: usage } = plain;
assert.equal(usage.totalTokenCount, usage.promptTokenCount + usage.candidatesTokenCount + usage.thoughtsTokenCount);
let said = '', last;
for await (const chunk of await client.models.generateContentStream({ model, contents: 'Say hello.', config: greedy })) {
  said += chunk.text ?? '';
  last = chunk;
}
assert.equal(said, plain.text);
assert.equal(last.usageMetadata.candidatesTokenCount, usage.candidatesTokenCount);
const shown = await ask('Say hello.', { thinkingConfig: { includeThoughts: true } });
assert.ok(shown.candidates[0].content.parts.some(p => p.thought && p.text));
assert.equal(shown.text, plain.text);

// A tool round trip: the second turn has the first one as it came, its signature too.
const tools = [{ functionDeclarations: [{ name: 'get_weather', description: 'Get the current weather of a city.',
  parameters: { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ['city'] } }] }];
const question = { role: 'user', parts: [{ text: 'What is the weather in Paris?' }] };
const called = await ask([question], { tools });
const [call] = called.functionCalls;
assert.equal(call.name, 'get_weather');
assert.deepEqual(call.args, { city: 'Paris' });
const told = await ask([question, called.candidates[0].content, { role: 'user', parts: [
  { functionResponse: { id: call.id, name: call.name, response: { temperature: 17, sky: 'clear' } } }] }], { tools });
assert.ok(told.text && !told.functionCalls);
const forced = await ask('Say hello.', { tools, toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } } });
assert.equal(forced.functionCalls[0].name, 'get_weather');

// JSON of a schema, and a chat whose turns the SDK keeps.
const shape = { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ['city'] };
const answer = await ask('Paris has 17 degrees.', { responseMimeType: 'application/json', responseSchema: shape });
assert.deepEqual(Object.keys(JSON.parse(answer.text)), ['city']);
const chat = client.chats.create({ model, config: greedy });
assert.equal((await chat.sendMessage({ message: 'Say hello.' })).text, plain.text);
for await (const chunk of await chat.sendMessageStream({ message: 'Say hello.' })) last = chunk;
assert.equal(last.candidates[0].finishReason, 'STOP');
assert.equal(chat.getHistory(true)[0].parts[0].text, 'Say hello.');

// The listing, a count, and errors.
const names = [];
for await (const m of await client.models.list({ config: { pageSize: 1 } })) names.push(m.name);
assert.deepEqual(names.sort(), ['models/core-1.1', 'models/core-1.1-mini']);
assert.equal((await client.models.get({ model })).name, 'models/core-1.1');
assert.equal((await client.models.countTokens({ model, contents: 'Say hello.' })).totalTokens, usage.promptTokenCount);
await assert.rejects(connect('sk-no').models.generateContent({ model, contents: 'hi' }), { name: 'ApiError', status: 401 });
await assert.rejects(client.models.generateContent({ model: 'nobody', contents: 'hi' }), { name: 'ApiError', status: 404 });
await assert.rejects(ask('hi', { candidateCount: 2 }), error => error.status === 400 && error.message.includes('generationConfig.candidateCount'));
console.log('passed');
