// A layer over both protocols against a running node: the loop of an agent with
// one tool, and an answer held to a schema, through each of its providers.
import { generateText, streamText, Output, stepCountIs, tool } from 'ai';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { z } from 'zod';
import assert from 'node:assert/strict';

const sent = []; // bodies
const options = { baseURL: process.env.BASE_URL + '/v1', apiKey: process.env.API_KEY,
  fetch: (url, init) => { sent.push(JSON.parse(init.body)); return fetch(url, init); } };
const id = 'core-1.1-mini';
const models = {
  messages: createAnthropic(options)(id),
  chat: createOpenAI(options).chat(id),
  'chat, compatible': createOpenAICompatible({ name: 'node', includeUsage: true, supportsStructuredOutputs: true, ...options })(id),
  responses: createOpenAI(options).responses(id),
};
const weather = tool({ description: 'The weather of a city.', inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => `Sunny in ${city}.` });
globalThis.AI_SDK_LOG_WARNINGS = false;

for (const [name, model] of Object.entries(models)) {
  const ask = { model, maxRetries: 0, maxOutputTokens: 300, temperature: 0, prompt: 'What is the weather in Paris? Use the tool.',
    // The service keeps no responses, so the client sends its thinking back.
    providerOptions: { openai: name === 'responses' ? { store: false, include: ['reasoning.encrypted_content'] } : {} } };
  const loop = { ...ask, tools: { weather }, stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'auto' }) };

  const plain = await generateText(loop);
  const streamed = streamText(loop);
  await streamed.consumeStream({ onError(error) { throw error; } });
  for (const steps of [plain.steps, await streamed.steps]) {
    assert.equal(steps.length, 2, name);
    assert.equal(steps[0].finishReason, 'tool-calls', name);
    assert.equal(typeof steps[0].toolCalls[0].input.city, 'string', name);
    assert.ok(steps[0].usage.inputTokens > 0 && steps[0].usage.outputTokens > 0, name);
    if (name === 'responses') assert.deepEqual(steps.flatMap((step) => step.warnings ?? []), [], 'all of a turn goes back');
  }
  if (name === 'responses') {
    const [thought] = sent.at(-1).input.filter((item) => item.type === 'reasoning');
    assert.ok(thought?.summary[0].text, 'the thinking before a call goes back with its result');
  }

  const held = await generateText({ ...ask, output: Output.object({ schema: z.object({ kind: z.enum(['a', 'b']), ok: z.boolean() }) }) });
  assert.equal(typeof held.output.ok, 'boolean', name);
}
console.log('passed');
