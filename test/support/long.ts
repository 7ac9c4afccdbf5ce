// How much a test does in `script/test`, and in `script/test-long`, which takes its time.

/** `short` in `script/test`, `long` in `script/test-long` (COB_TEST_LONG=1). */
export const amount = (short: number, long: number): number => (process.env.COB_TEST_LONG === '1' ? long : short)
