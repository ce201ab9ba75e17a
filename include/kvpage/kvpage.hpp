// kvpage: everything that needs no CUDA.
#pragma once

#include "block_table.hpp"
#include "config.hpp"
#include "decode_batch.hpp"
#include "element.hpp"
#include "element_convert.hpp"
#include "error.hpp"
#include "integrity.hpp"
#include "page_handle.hpp"
#include "page_layout.hpp"
#include "page_pool.hpp"
#include "page_shape.hpp"
#include "table_version.hpp"
#include "tag_journal.hpp"
#include "verdict.hpp"
#include "verify.hpp"
#include "version.hpp"
