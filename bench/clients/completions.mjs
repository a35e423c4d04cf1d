// The legacy completions of the official OpenAI SDK for JavaScript against a running node whose module completions is enabled.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const connect = apiKey => new OpenAI({ baseURL: process.env.BASE_URL + '/v1', apiKey, maxRetries: 0 });
const client = connect(process.env.API_KEY);
const ask = { model: 'core-1.1', prompt: 'Once upon a time', max_tokens: 16, temperature: 0 };
const create = more => client.completions.create({ ...ask, ...more });

const plain = await create();
assert.equal(plain.object, 'text_completion');
assert.ok(plain.id.startsWith('cmpl-') && ['stop', 'length'].includes(plain.choices[0].finish_reason));
assert.equal(plain.usage.total_tokens, plain.usage.prompt_tokens + plain.usage.completion_tokens);

let said = '', last, reason;
for await (const chunk of await create({ stream: true, stream_options: { include_usage: true } })) {
  said += chunk.choices[0]?.text ?? '';
  reason = chunk.choices[0]?.finish_reason ?? reason;
  last = chunk;
}
assert.equal(said, plain.choices[0].text);
assert.equal(reason, plain.choices[0].finish_reason);
assert.equal(last.usage.total_tokens, plain.usage.total_tokens);

assert.equal((await create({ prompt: ['Once upon a time'], echo: true })).choices[0].text, 'Once upon a time' + plain.choices[0].text);
// A special token's name is text, which has more tokens than one.
const special = await create({ prompt: 'Once upon a time<|im_end|>' });
assert.ok(special.usage.prompt_tokens > plain.usage.prompt_tokens + 1);

const fails = (kind, param, call) => assert.rejects(call, error => error instanceof kind && error.param === param);
for (const [param, value] of Object.entries({ suffix: 'end', n: 2, best_of: 2, logprobs: 1, logit_bias: { 1: 1 }, prompt: ['a', 'b'] })) {
  await fails(OpenAI.BadRequestError, param, create({ [param]: value }));
}
await fails(OpenAI.BadRequestError, 'model', create({ model: 'nobody' }));
await fails(OpenAI.AuthenticationError, null, connect('sk-no').completions.create(ask));
console.log('passed');
