// What the TypeScript scripts share: where the two nodes are, and cases that run one by
// one; see cases.py.
import { appendFileSync, readFileSync } from 'node:fs';

export const MODEL = 'core-1.1';
export const shipped = { url: process.env.BASE_URL, key: process.env.API_KEY };
export const recorded = { url: process.env.RECORDED_URL, key: process.env.RECORDED_KEY };
export const stranger = { url: shipped.url, key: 'sk-no' };

// What the recorded answers answer.
export const HELLO = 'Say hello.';
export const WEATHER = 'What is the weather in Paris? Use the tool.';
export const BOTH = 'Compare the weather in Paris and in Rome. Use the tool.';
export const EXTRACT = 'Extract the person: Anna Berg is 34, lives in Oslo, likes skiing and chess, and is a customer.';
export const WARM = 'It is 21 degrees and sunny in Paris.';
export const WARMER = 'Rome is warmer: 25 degrees against 21 in Paris.';
export const ANNA = { name: 'Anna Berg', age: 34, city: 'Oslo', hobbies: ['skiing', 'chess "blitz"'], kind: 'customer' };
export const weather = (city) => ({ Paris: '21 degrees, sunny', Rome: '25 degrees, clear' })[city];

// Runs a case and writes its result.
export async function run(client, module, protocol, name, body) {
  const { version } = JSON.parse(readFileSync(new URL(`node_modules/${module}/package.json`, import.meta.url)));
  const error = await body().then(() => '', (e) => `${e.name}: ${e.message}${e.cause ? ` (${e.cause})` : ''}`.slice(0, 600));
  appendFileSync(process.env.RESULTS, JSON.stringify({ client, version, protocol, case: name, error }) + '\n');
}
