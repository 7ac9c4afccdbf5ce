// The settings of an identity provider (OpenID Connect), for people who sign in. docs/settings.md describes them for users.
import { ConfigError, flag, needed } from './setting.ts'

export type OidcSettings = NonNullable<ReturnType<typeof oidcSettings>>

const ROLES = ['owner', 'member', 'viewer'] as const
type Role = (typeof ROLES)[number]

const NAMES = [
  'CLIENT_ID',
  'CLIENT_SECRET',
  'NAME',
  'SCOPES',
  'EMAIL_DOMAINS',
  'ROLE_CLAIM',
  'ROLES',
  'DEFAULT_ROLE',
  'FIRST_OWNER',
  'TRUST_EMAIL',
  'ALLOW_HTTP',
].map((name) => `COB_OIDC_${name}`)

const list = (text: string | undefined): string[] => (text ?? '').split(',').flatMap((part) => part.trim() || [])

function roleOf(name: string, text: string): Role {
  const role = ROLES.find((one) => one === text)
  if (!role) throw new ConfigError(name, `"${text}" is no role; use ${ROLES.join(', ')}`)
  return role
}

/** Undefined without COB_OIDC_ISSUER. @throws ConfigError */
export function oidcSettings(env: NodeJS.ProcessEnv) {
  const issuer = env.COB_OIDC_ISSUER
  if (!issuer) {
    const other = NAMES.find((name) => env[name])
    if (other !== undefined) throw new ConfigError('COB_OIDC_ISSUER', `must be set too, because ${other} is set`)
    return undefined
  }
  const url = URL.canParse(issuer) ? new URL(issuer) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
    throw new ConfigError('COB_OIDC_ISSUER', 'must be the https address of the issuer, without a user, query or fragment')
  // An attacker on the network could sign in as anybody.
  if (url.protocol === 'http:' && !flag(env, 'COB_OIDC_ALLOW_HTTP'))
    throw new ConfigError('COB_OIDC_ISSUER', 'must be https; COB_OIDC_ALLOW_HTTP=1 allows http in a network that you trust')
  const domains = list(env.COB_OIDC_EMAIL_DOMAINS).map((domain) => domain.toLowerCase().replace(/^@/, ''))
  const bad = domains.find((domain) => !/^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(domain))
  if (bad !== undefined) throw new ConfigError('COB_OIDC_EMAIL_DOMAINS', `"${bad}" is no domain; write domains with commas between them, such as example.com`)
  const roles = new Map(
    list(env.COB_OIDC_ROLES).map((pair) => {
      const at = pair.lastIndexOf('=')
      if (at < 1) throw new ConfigError('COB_OIDC_ROLES', `"${pair}" must be a value of the claim, "=" and a role, such as admins=owner`)
      return [pair.slice(0, at), roleOf('COB_OIDC_ROLES', pair.slice(at + 1))] as const
    }),
  )
  const firstOwner = env.COB_OIDC_FIRST_OWNER?.toLowerCase() || undefined
  if (firstOwner !== undefined && !/^[^\s@]+@[^\s@]+$/.test(firstOwner)) throw new ConfigError('COB_OIDC_FIRST_OWNER', 'must be an e-mail address')
  const scopes = env.COB_OIDC_SCOPES || 'openid email profile'
  if (!scopes.split(' ').includes('openid')) throw new ConfigError('COB_OIDC_SCOPES', 'must contain openid')
  return {
    // The issuer, exactly as the provider names itself.
    issuer,
    clientId: needed(env, 'COB_OIDC_CLIENT_ID', 'COB_OIDC_ISSUER is set'),
    // Undefined for a public client.
    clientSecret: env.COB_OIDC_CLIENT_SECRET ? needed(env, 'COB_OIDC_CLIENT_SECRET', '') : undefined,
    name: env.COB_OIDC_NAME || 'single sign-on',
    scopes,
    // Only addresses of these domains may sign in; all when empty.
    domains,
    // Whether addresses count as verified when the provider does not say it.
    trustsEmail: flag(env, 'COB_OIDC_TRUST_EMAIL'),
    roleClaim: env.COB_OIDC_ROLE_CLAIM || 'groups',
    // The role in all projects for each value of the claim.
    roles,
    // The role of all other people who may sign in; when undefined, they need an invitation.
    defaultRole: env.COB_OIDC_DEFAULT_ROLE ? roleOf('COB_OIDC_DEFAULT_ROLE', env.COB_OIDC_DEFAULT_ROLE) : undefined,
    // The verified address that becomes an owner when it signs in.
    firstOwner,
  }
}
