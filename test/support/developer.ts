// What a developer's shell says of other programs, which tests would hand to the services that they start: settings of a Cob and of clients, proxies, locale, Postgres.

/** Set by scripts that run tests with another driver. */
const OF_DRIVERS = /^COB_(TEST_|DRIVER$|KUBERNETES_)/
const OTHERS = /^(COB_|KERNEL_|PG[A-Z]+$|DATABASE_URL$|XDG_DATA_HOME$|NODE_OPTIONS$|LANG$|LANGUAGE$|LC_|TZ$|(HTTPS?|ALL|NO)_PROXY$)/i

/** vitest calls it before all else of a run: its own processes inherit what is left. */
export default function clean(): void {
  for (const name of Object.keys(process.env)) if (OTHERS.test(name) && !OF_DRIVERS.test(name)) delete process.env[name]
  // As in a new home.
  Object.assign(process.env, { GIT_CONFIG_GLOBAL: '/dev/null', PGPASSFILE: '/dev/null', LC_ALL: 'C.UTF-8' })
}
