"""Import the engine and add: `python import_tensor.py`."""

import tensor as tn

print((tn.asarray([1.0, 2.0]) + 1).tolist())
