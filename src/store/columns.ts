// The types of columns that tables have in common.
import type { ColumnType, JSONColumnType } from 'kysely'

export type Json<T extends object | null> = JSONColumnType<T, string, string>
export type Time = ColumnType<Date, Date | string, Date | string>
export type DefaultTime = ColumnType<Date, Date | string | undefined, Date | string>
