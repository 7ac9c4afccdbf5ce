// vite.config.ts generates this from the contracts: the method, the path and the needed right of each call, by id.
declare module 'virtual:routes' {
  export const ROUTES: Record<string, readonly [method: string, path: string, right: 'view' | 'use' | 'own']>
}
