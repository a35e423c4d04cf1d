// The AI SDK, a layer over the protocols, through each of its providers.
import { APICallError, generateText, streamText, Output, stepCountIs, tool } from 'ai';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { z } from 'zod';
import assert from 'node:assert/strict';
import { ANNA, BOTH, EXTRACT, HELLO, MODEL, WARM, WARMER, WEATHER, recorded, run, shipped, stranger, weather } from './cases.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const sent = []; // bodies
const options = (node) => ({ baseURL: node.url + '/v1', apiKey: node.key,
  fetch: (url, init) => { sent.push(JSON.parse(init.body)); return fetch(url, init); } });
const providers = {
  messages: (node, id = MODEL) => createAnthropic(options(node))(id),
  chat: (node, id = MODEL) => createOpenAI(options(node)).chat(id),
  'chat, compatible': (node, id = MODEL) =>
    createOpenAICompatible({ name: 'node', includeUsage: true, supportsStructuredOutputs: true, ...options(node) })(id),
  responses: (node, id = MODEL) => createOpenAI(options(node)).responses(id),
};
const get_weather = tool({ description: 'The weather of a city.', inputSchema: z.object({ city: z.string() }), execute: ({ city }) => weather(city) });
const person = z.object({ name: z.string(), age: z.int(), city: z.string(), hobbies: z.array(z.string()), kind: z.enum(['customer', 'guest']) });

for (const [protocol, provider] of Object.entries(providers)) {
  const check = (name, body) => run('AI SDK', 'ai', protocol, name, body);
  // The service keeps no responses, so the client must be told to send its thinking back.
  const providerOptions = { openai: protocol === 'responses' ? { store: false } : {} };
  const ask = (model, prompt) => ({ model, prompt, maxRetries: 0, maxOutputTokens: 500, temperature: 0, providerOptions });
  const loop = (prompt) => ({ ...ask(provider(recorded), prompt), tools: { get_weather }, stopWhen: stepCountIs(3) });
  const drain = async (result) => { await result.consumeStream({ onError(error) { throw error; } }); return result; };

  await check('plain', async () => {
    const { text, usage } = await generateText(ask(provider(shipped), HELLO));
    assert.ok(text && usage.inputTokens > 0 && usage.outputTokens > 0, text);
  });
  await check('streamed', async () => {
    const result = await drain(streamText(ask(provider(shipped), HELLO)));
    assert.ok(await result.text);
    assert.ok((await result.usage).outputTokens > 0);
  });
  await check('tool round trip', async () => {
    const { text, steps } = await generateText(loop(WEATHER));
    assert.equal(text, WARM);
    assert.equal(steps[0].finishReason, 'tool-calls');
    assert.deepEqual(steps[0].toolCalls[0].input, { city: 'Paris' });
    if (protocol !== 'responses') return;
    assert.deepEqual(steps.flatMap((step) => step.warnings ?? []), [], 'all of a turn goes back');
    const [thought] = sent.at(-1).input.filter((item) => item.type === 'reasoning');
    assert.equal(thought?.summary[0].text, 'The tool knows.', 'the thinking before a call goes back with its result');
  });
  await check('streamed tool round trip', async () => assert.equal(await (await drain(streamText(loop(WEATHER)))).text, WARM));
  await check('parallel tools', async () => {
    const { text, steps } = await generateText(loop(BOTH));
    assert.equal(text, WARMER);
    assert.deepEqual(steps[0].toolCalls.map((call) => call.input.city), ['Paris', 'Rome']);
  });
  await check('forced tool, shipped model', async () => {
    const { toolCalls } = await generateText({ ...ask(provider(shipped), WEATHER), tools: { get_weather }, toolChoice: 'required' });
    assert.equal(typeof toolCalls[0].input.city, 'string');
  });
  await check('structured output', async () => {
    const { output } = await generateText({ ...ask(provider(recorded), EXTRACT), output: Output.object({ schema: person }) });
    assert.deepEqual(output, ANNA);
  });
  await check('streamed structured output', async () => {
    const result = streamText({ ...ask(provider(recorded), EXTRACT), output: Output.object({ schema: person }) });
    let last;
    for await (const partial of result.partialOutputStream) last = partial;
    assert.deepEqual(last, ANNA);
  });
  await check('structured output, shipped model', async () => {
    const schema = z.object({ kind: z.enum(['a', 'b']), ok: z.boolean() });
    const { output } = await generateText({ ...ask(provider(shipped), EXTRACT), output: Output.object({ schema }) });
    assert.equal(typeof output.ok, 'boolean');
  });
  await check('typed errors', async () => {
    for (const [model, status] of [[provider(stranger), 401], [provider(shipped, 'nobody'), protocol === 'messages' ? 404 : 400]]) {
      const error = await generateText(ask(model, HELLO)).then(() => assert.fail('no error'), (e) => e);
      assert.ok(APICallError.isInstance(error), String(error));
      assert.equal(error.statusCode, status);
    }
  });
}

await run('AI SDK', 'ai', 'messages', 'tools of the server\'s side', async () => {
  const { webSearch_20250305, webFetch_20250910, codeExecution_20250825, memory_20250818, toolSearchRegex_20251119 } = createAnthropic(options(recorded)).tools;
  const { text } = await generateText({ model: providers.messages(recorded), maxRetries: 0, prompt: WEATHER, stopWhen: stepCountIs(3), tools: { get_weather,
    web_search: webSearch_20250305({}), web_fetch: webFetch_20250910({}), code_execution: codeExecution_20250825(),
    memory: memory_20250818({ execute: async () => '' }), tool_search: toolSearchRegex_20251119() } });
  assert.equal(text, WARM);
});

await run('AI SDK', 'ai', 'responses', 'tool round trip with the defaults', async () => {
  const { text } = await generateText({ model: providers.responses(recorded), maxRetries: 0, prompt: WEATHER, tools: { get_weather }, stopWhen: stepCountIs(3) });
  assert.equal(text, WARM);
});
