// Icons of buttons. The buttons have the accessible names.

/** `d` is a path in a square of 24. It is drawn as lines, or with `isFilled` as an area. */
export const Icon = ({ d, isFilled = false }: { d: string; isFilled?: boolean }) => (
  <svg className={isFilled ? 'icon filled' : 'icon'} viewBox="0 0 24 24" aria-hidden="true">
    <path d={d} />
  </svg>
)
