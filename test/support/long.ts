// How much work a test does: less in `script/test`, more in `script/test-long`.

/** `short` in `script/test`, `long` in `script/test-long` (COB_TEST_LONG=1). */
export const amount = (short: number, long: number): number => (process.env.COB_TEST_LONG === '1' ? long : short)
