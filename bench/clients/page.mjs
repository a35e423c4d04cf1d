// The official SDKs in a page of a browser, whose fetch asks before it sends to another
// origin and hides what it was not told to show. PAGE_ORIGIN is in server.cors_origins.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { Window } from 'happy-dom';
import assert from 'node:assert/strict';
import { HELLO, MODEL, run, shipped, stranger } from './cases.mjs';

const messages = [{ role: 'user', content: HELLO }];
const kinds = {
  'openai TypeScript': ['openai', ['chat', 'responses'], (node, fetch) =>
    new OpenAI({ baseURL: node.url + '/v1', apiKey: node.key, fetch, maxRetries: 0, dangerouslyAllowBrowser: true })],
  'anthropic TypeScript': ['@anthropic-ai/sdk', ['messages'], (node, fetch) =>
    new Anthropic({ baseURL: node.url, apiKey: node.key, fetch, maxRetries: 0, dangerouslyAllowBrowser: true })],
};
const ask = {
  chat: (client, more) => client.chat.completions.create({ model: MODEL, messages, max_tokens: 100, ...more }),
  responses: (client, more) => client.responses.create({ model: MODEL, input: HELLO, max_output_tokens: 100, ...more }),
  messages: (client, more) => client.messages.create({ model: MODEL, messages, max_tokens: 100, ...more }),
};

// Runs what a page of an origin does, with a client of a kind.
async function inPage(origin, make, node, body) {
  const page = new Window({ url: origin + '/chat' });
  try {
    const fetch = (url, init) => page.fetch(url, { ...init, headers: Object.fromEntries(init.headers), signal: undefined }); // of the page's own kinds
    return await body(make(node, fetch));
  } finally {
    await page.happyDOM.close();
  }
}

for (const [client, [module, protocols, make]] of Object.entries(kinds)) {
  for (const protocol of protocols) {
    const check = (name, body) => run(client, module, protocol, name, body);
    const here = (node, body) => inPage(process.env.PAGE_ORIGIN, make, node, body);
    await check('in a page, plain', () => here(shipped, async (c) => {
      const { data, response } = await ask[protocol](c).withResponse();
      assert.ok(data.id);
      assert.ok(response.headers.get('x-request-id'), 'a page may read the id of its request');
    }));
    await check('in a page, streamed', () => here(shipped, async (c) => {
      let events = 0;
      for await (const _ of await ask[protocol](c, { stream: true })) events++;
      assert.ok(events > 3, `${events} events`);
    }));
    await check('in a page, typed errors', () => here(stranger, async (c) => {
      const error = await ask[protocol](c).then(() => assert.fail('no error'), (e) => e);
      assert.equal(error.status, 401, String(error));
    }));
    await check('in a page of another origin', () => inPage('http://other.example', make, shipped, async (c) => {
      const error = await ask[protocol](c).then(() => assert.fail('a page may read what is not for it'), (e) => e);
      assert.equal(error.status, undefined, String(error));
      assert.match(String(error.cause ?? error), /cross-?origin|CORS/i);
    }));
  }
}
