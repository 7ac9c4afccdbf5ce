// By these labels the driver finds what it has made on a Docker host.
export const LABELS = { scope: 'cob.scope', kind: 'cob.kind', id: 'cob.id', replica: 'cob.replica', note: 'cob.note' } as const

/** The kind of containers that only do something for another one. */
export const HELPER = 'helper'
