// Pictures of buttons. Their names are in the buttons.

/** `d`: of a path in a square of 24; lines, or an area if it `isFilled`. */
export const Icon = ({ d, isFilled = false }: { d: string; isFilled?: boolean }) => (
  <svg className={isFilled ? 'icon filled' : 'icon'} viewBox="0 0 24 24" aria-hidden="true">
    <path d={d} />
  </svg>
)
