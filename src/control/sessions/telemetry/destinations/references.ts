// The destination of telemetry in a browser's options.
import type { Naming } from '../../browsers/options/look-up.ts'
import type { Destinations } from './destinations.ts'

const FIELD = 'telemetry.export.otlp.destination'

/** Replaces the destination's name by its id. A named destination exists at that time. */
export const destinationNaming = ({ idOf }: Pick<Destinations, 'idOf'>) =>
  async function nameDestination<T extends Naming>(given: T): Promise<T> {
    const { telemetry } = given
    const otlp = telemetry?.export?.otlp
    if (!telemetry || !otlp?.destination) return given
    const { id, name } = otlp.destination
    const found = id === undefined ? await idOf({ name: name! }, `${FIELD}.name`) : await idOf({ id }, `${FIELD}.id`)
    return { ...given, telemetry: { ...telemetry, export: { otlp: { ...otlp, destination: { id: found } } } } }
  }
