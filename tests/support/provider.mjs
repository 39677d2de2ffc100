// An identity provider on loopback: PORT AUDIENCE GROUPS (a file of JSON: groups by account).
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const [port, audience, groups] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig' };
const getResourceServerInfo = async () => ({ audience, scope: '', accessTokenFormat: 'jwt' });
const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [key] },
  cookies: { keys: ['test'] },
  clients: [{
    client_id: 'jedi-task', token_endpoint_auth_method: 'none', application_type: 'native',
    redirect_uris: ['http://127.0.0.1/login/callback'], // at any port (RFC 8252, 7.3)
    response_types: ['code'],
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token',
      'authorization_code'],
  }],
  features: {
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: { enabled: true, getResourceServerInfo },
  },
  extraTokenClaims: async (_, token) => ({
    preferred_username: `${token.accountId}-x`,
    groups: JSON.parse(readFileSync(groups))[token.accountId],
  }),
  findAccount: async (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
});
createServer(provider.callback()).listen(port, '127.0.0.1', () => console.log('ready'));
