// Writes the files of this folder with other people's writers, from rows.jsonl:
//
//	npm install @duckdb/node-api nodejs-polars hyparquet-writer && node make.mjs
//
// The test reads each and expects the rows of rows.jsonl. Run it again only to change the rows.
import { DuckDBInstance } from '@duckdb/node-api'
import pl from 'nodejs-polars'
import { parquetWriteBuffer } from 'hyparquet-writer'
import { readFileSync, writeFileSync } from 'node:fs'

const rows = readFileSync('rows.jsonl', 'utf8').trim().split('\n').map(l => JSON.parse(l))

const duck = await (await DuckDBInstance.create()).connect()
const table = `(SELECT * REPLACE (created_at::TIMESTAMPTZ AS created_at) FROM read_json('rows.jsonl', format='newline_delimited',
  columns={instance_id:'VARCHAR', repo:'VARCHAR', base_commit:'VARCHAR', problem_statement:'VARCHAR', hints_text:'VARCHAR', patch:'VARCHAR', test_patch:'VARCHAR',
  version:'BIGINT', created_at:'VARCHAR', FAIL_TO_PASS:'VARCHAR[]', PASS_TO_PASS:'VARCHAR[]', environment_setup_commit:'VARCHAR',
  install_config:'STRUCT(install VARCHAR, packages VARCHAR, pip_packages VARCHAR[], test_cmd VARCHAR, log_parser VARCHAR)',
  meta:'STRUCT(llm_score STRUCT(difficulty INTEGER), num_modified_files INTEGER)', license_name:'VARCHAR', docker_image:'VARCHAR'}))`
await duck.run("SET TimeZone = 'UTC'")
for (const codec of ['snappy', 'zstd', 'gzip'])
  await duck.run(`COPY ${table} TO 'duckdb-${codec}.parquet' (FORMAT parquet, COMPRESSION ${codec}, ROW_GROUP_SIZE 2)`)

const df = pl.readParquet('duckdb-zstd.parquet') // whose types it writes in its own ways
df.writeParquet('polars.parquet', { compression: 'zstd' })
df.writeIPC('polars.arrow', { compression: 'zstd' })
df.writeIPC('polars-lz4.arrow', { compression: 'lz4' })
df.writeIPCStream?.('polars-stream.arrow')

const column = (name, type, pick = r => r[name]) => ({ name, data: rows.map(pick), type, nullable: true })
const text = ['instance_id', 'repo', 'base_commit', 'problem_statement', 'hints_text', 'patch', 'test_patch', 'environment_setup_commit', 'license_name', 'docker_image']
writeFileSync('hyparquet.parquet', Buffer.from(parquetWriteBuffer({ rowGroupSize: 2, columnData: [
  ...text.map(name => column(name, 'STRING', r => r[name] ?? null)),
  column('version', 'INT64', r => BigInt(r.version)),
  column('created_at', 'TIMESTAMP', r => new Date(r.created_at)),
  // as text and as JSON columns: this writer has no nested types of its own
  column('FAIL_TO_PASS', 'STRING', r => JSON.stringify(r.FAIL_TO_PASS)), column('PASS_TO_PASS', 'STRING', r => JSON.stringify(r.PASS_TO_PASS)),
  column('install_config', 'JSON'), column('meta', 'JSON'),
] })))
