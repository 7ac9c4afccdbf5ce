// Removes a developer's own settings from the environment, so that the services of tests do not inherit them: settings of Cob and of clients, proxies, locale, Postgres.

/** Scripts that run tests with another driver set these. */
const OF_DRIVERS = /^COB_(TEST_|DRIVER$|KUBERNETES_)/
const OTHERS = /^(COB_|KERNEL_|PG[A-Z]+$|DATABASE_URL$|XDG_DATA_HOME$|NODE_OPTIONS$|LANG$|LANGUAGE$|LC_|TZ$|(HTTPS?|ALL|NO)_PROXY$)/i

/** vitest calls this before a run; its processes inherit the remaining environment. */
export default function clean(): void {
  for (const name of Object.keys(process.env)) if (OTHERS.test(name) && !OF_DRIVERS.test(name)) delete process.env[name]
  // Configuration as for a new user.
  Object.assign(process.env, { GIT_CONFIG_GLOBAL: '/dev/null', PGPASSFILE: '/dev/null', LC_ALL: 'C.UTF-8' })
}
