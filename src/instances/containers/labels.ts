// The labels and names by which an engine finds the objects that it has made.
import type { ContainerKind } from './engine.ts'

export const LABELS = {
  scope: 'cob.scope',
  kind: 'cob.kind',
  id: 'cob.id',
  replica: 'cob.replica',
  note: 'cob.note',
  servers: 'cob.servers',
  resolvers: 'cob.resolvers',
} as const

/** The kind of containers that only help others. */
export const HELPER = 'helper'

export const nameOf = (kind: ContainerKind, id: string): string => `cob-${kind}-${id}`

/** The labels of everything of a kind in a scope, and `more`. */
export const labelsOf = (scope: string, kind: ContainerKind, more: Record<string, string> = {}): Record<string, string> => ({
  [LABELS.scope]: scope,
  [LABELS.kind]: kind,
  ...more,
})
