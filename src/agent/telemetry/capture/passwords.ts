// Learns values that are typed or filled into password-like fields, so that all events leave them out. It works whenever anything is captured in Chromium.
import { CDP_CATEGORIES } from '../contract.ts'
import type { Collector } from './collector.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import { worldOf } from './world.ts'
import { MAX_PASSWORD } from '../limits.ts'

export const passwords = (secrets: Pick<Secrets, 'learn'>): Collector => ({
  categories: CDP_CATEGORIES,
  isGuard: true,
  types: ['page', 'iframe'],
  watch: (target) =>
    worldOf(target).use('passwords', ({ value, stage, field }, frameId) => {
      if (!isValue(value)) return
      secrets.learn(value, {
        stage: isValue(stage) ? stage : undefined,
        source: frameId,
        field: Number.isSafeInteger(field) ? (field as number) : undefined,
      })
    }),
})

const isValue = (value: unknown): value is string => typeof value === 'string' && value.length <= MAX_PASSWORD
