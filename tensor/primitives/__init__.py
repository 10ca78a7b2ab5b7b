"""Primitives: the one table of what the engine can compute, a row each.

A row says everything that other parts need to know about an operation: its shape and dtype rule, its kernel or view,
its twin (a short numpy program that defines the bits), how gradients, tangents and batches pass through it, and what it
costs. Tests, vmap, the planner, fusion and docs/primitives.md iterate over the rows; nobody keeps a second list.

How to write a row
------------------
Every module of this folder that holds rows is a *family*: registry.py finds it by itself. An elementwise row is short,
because broadcasting, gradients, tangents and batching follow from its partial derivatives:

    MUL = elementwise(
        "mul", arity=2, dtypes=NUMBERS, summary="Product, element by element.",
        keeps=keep(inputs=(0, 1)),
        partials=lambda node: (lambda t: t * node.inputs[1], lambda t: t * node.inputs[0]),
        twin=lambda arrays, params: canonical(np.multiply(*arrays)),
        oracle=lambda arrays, params: arrays[0] * arrays[1],
        samples=lambda rng: pairs(rng),
    )

Any other row is written out in full:

    SOFTMAX = register(
        Primitive(
            "softmax", category="normalization", summary="exp(x) / sum(exp(x)) along the last axis.",
            dtypes=FLOATS,
            shape=lambda specs, params: specs[0],
            kernel=lambda outs, inputs, params: _kernels.softmax(inputs[0], outs[0]),
            twin=lambda arrays, params: softmax_ref(arrays[0]),
            keeps=keep(outputs=(0,)),
            vjp=lambda g, node: (softmax_gradient(g, node.outputs[0]),),
            batch=leading_batch(cores=(1,)),
            samples=lambda rng: [Sample(rng.normal(size=(3, 5)))],
        )
    )

The fields, in the order in which they are asked for:

- `shape(specs, params)` gives the Spec of the result, or a tuple of them: then the row has several results, and
  kernels, twins and gradients see tuples. It raises ShapeError or DtypeError with the whole text. Specs and tensors
  both have `shape`, `dtype`, `device`, `ndim`, `size`. `params` is a dict of hashable values, or None if the row has
  none.
- `kernel(outs, inputs, params)` writes into the outs, which the caller allocated by the shape rule. A structural row
  has `view(inputs, params)` instead, which returns a tensor that shares the storage. A row with `op` (the name of an
  elementwise kernel) needs neither.
- `twin(arrays, params)` on numpy arrays gives the array, or a tuple of them. It defines the bits. It runs in
  `plain_mode`. A bfloat16 array comes as its twins expect it (tensor/twins/bfloat16_ref.py).
- `keeps` says which inputs and outputs the gradient reads. `node.inputs[i]` is the tensor where it is kept and its
  Spec elsewhere, so that memory is given back as early as can be. `alone` says it for rows of two inputs where only the
  first, or only the second, wants a gradient (a product with a constant reads the constant alone).
- `vjp(g, node)` gives one tensor (or None) an input. It is written in differentiable functions: that is what makes
  gradients of gradients. `g` is the gradient of the result (a tuple if there are several; zeros where nothing
  arrived, None if the row says `sparse_gradients=True`). Complex numbers: the gradient is that of Re and Im as
  independent reals, so a factor enters conjugated. Rows that compute integers or booleans have no vjp.
- `jvp(tangents, node)` gives the tangent of the result; an input that doesn't move has tangent None. Without it the
  tangent is found by transposing the vjp. A row that is linear in all its inputs says `linear=True`: the tangent is
  the row itself on the tangents, and the vjp is its transpose.
- `batch(inputs, dims, params)` gives (results, dims) for inputs with one more dimension each at dims[i], or None
  where an input has none. rules.py has generic ones; without it the row runs once an element, and the results are
  stacked.
- `cost(specs, outs, params)` gives (bytes, flops); the default counts each byte once and one flop a result.
- `samples(rng)` yields small inputs: float64 arrays stand for every dtype of the row (they are cast), arrays of
  another dtype stay what they are. The tests run on them: shape rule, twin against kernel, gradients, tangents,
  batches. A row without samples fails the tests.
- `check(inputs, params)` raises for what `tensor.checked()` refuses before the row runs (a division of ints by zero).
- `oracle(arrays, params)` is the meaning by an independent implementation (numpy, scipy), compared to `tolerance`.
- `invariant(arrays, outs, params)` instead, where the result is one of many: pairs of arrays that must be equal.

Conventions that rows share: names are the array API's where it has one in lower case without `__` (`add`, `mul`, `div`,
`neg`, `sum`, `matmul`), one row a meaning; `params` hold plain ints, floats, bools, strings and tuples of them, axes
are counted from the front (the function layer normalises −1 to ndim − 1), `axis` is one or a tuple, `keepdims` a bool.
Rows see tensors of equal dtypes; promotion, Python scalars and defaults are the function layer's business. A gradient
may use any operator, method or function of tensors, and `rules.call("name", x, y, axis=0)` for another row.
"""
